"""What all of DQN, DDPG, TD3, MPO, SARSA and MDQ must keep: parameters trained once, states that resume, equal seeds."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

from rein import nest
from rein.algorithms.off_policy import (
    DdpgAlgorithm,
    DqnAlgorithm,
    MdqAlgorithm,
    MpoAlgorithm,
    SarsaAlgorithm,
    Td3Algorithm,
)
from rein.data_structures import TimeStep
from rein.framework import RLAlgorithm
from rein.networks import (
    ActionQuantizer,
    ActorDistributionNetwork,
    ActorNetwork,
    CriticNetwork,
    MdqCriticNetwork,
    NormalProjectionNetwork,
    QNetwork,
)
from rein.networks.state import zero_state
from rein.optimizers import Adam

ACTOR = partial(ActorNetwork, fc_layer_params=(8,))
STOCHASTIC = partial(
    ActorDistributionNetwork,
    fc_layer_params=(8,),
    continuous_projection_net_ctor=partial(NormalProjectionNetwork, state_dependent_std=True, scale_distribution=True),
)
CRITIC = partial(CriticNetwork, joint_fc_layer_params=(8,))


def adam() -> dict[str, Any]:
    return {"actor_optimizer": Adam(lr=1e-2), "critic_optimizer": Adam(lr=1e-2)}


def mdq_network(specs: Any) -> MdqCriticNetwork:
    return MdqCriticNetwork(specs, ActionQuantizer(specs[1], 9), mid_encoding_layer_params=(8,))


ALGORITHMS: dict[str, tuple[str, Callable[[], Callable[..., RLAlgorithm]]]] = {
    "dqn": ("rein/Chain-v0", lambda: partial(DqnAlgorithm, q_network_cls=QNetwork, q_optimizer=Adam(lr=1e-2))),
    "ddpg": (
        "rein/IdentityContinuous-v0",
        lambda: partial(DdpgAlgorithm, actor_network_ctor=ACTOR, critic_network_ctor=CRITIC, **adam()),
    ),
    "td3": (
        "rein/IdentityContinuous-v0",
        lambda: partial(Td3Algorithm, actor_network_ctor=ACTOR, critic_network_ctor=CRITIC, **adam()),
    ),
    "mpo": (
        "rein/IdentityContinuous-v0",
        lambda: partial(MpoAlgorithm, actor_network_ctor=STOCHASTIC, critic_network_ctor=CRITIC, **adam()),
    ),
    "sarsa": (
        "rein/IdentityContinuous-v0",
        lambda: partial(
            SarsaAlgorithm,
            actor_network_ctor=STOCHASTIC,
            critic_network_ctor=CRITIC,
            alpha_optimizer=Adam(lr=1e-2),
            **adam(),
        ),
    ),
    "mdq": (
        "rein/IdentityContinuous-v0",
        lambda: partial(
            MdqAlgorithm, critic_network=mdq_network, critic_optimizer=Adam(lr=1e-2), alpha_optimizer=Adam(lr=1e-2)
        ),
    ),
}
SHORT = {"num_envs": 2, "mini_batch_size": 8, "initial_collect_steps": 10, "episodes": 1}


@pytest.fixture(params=ALGORITHMS)
def trained(request: Any, train_toy: Any) -> tuple[RLAlgorithm, Callable[..., RLAlgorithm]]:
    env_name, make = ALGORITHMS[request.param]
    return train_toy(make(), env_name, 12, **SHORT)[0], lambda n: train_toy(make(), env_name, n, **SHORT)[0]


def act(algorithm: RLAlgorithm) -> Any:
    observation = torch.linspace(0, 1, 3)[:, None].expand(3, algorithm.observation_spec.numel)
    step = TimeStep(step_type=torch.ones(3, dtype=torch.int32), observation=observation)
    with torch.no_grad():
        return algorithm.predict_step(step, zero_state(algorithm.predict_state_spec, 3)).output


def test_every_parameter_is_a_target_or_has_one_optimizer_and_moves(trained: Any) -> None:
    algorithm, again = trained
    start = dict(again(1).named_parameters())  # as many steps as are collected before the first update
    handled = [p for o in algorithm.optimizers() for g in o.param_groups for p in g["params"]]
    assert len(handled) == len({id(p) for p in handled})
    for name, parameter in algorithm.named_parameters():
        is_frozen = "target" in name or not parameter.requires_grad
        assert is_frozen is not any(parameter is p for p in handled), name
        if not is_frozen:
            assert not torch.equal(parameter, start[name]), name


def test_a_loaded_state_acts_alike(trained: Any) -> None:
    algorithm, again = trained
    other = again(1)
    before = act(other)
    other.load_state_dict(algorithm.state_dict())
    expected = act(algorithm)
    assert nest.flatten(nest.map_structure(torch.equal, act(other), expected)) == [True]
    assert before.shape == expected.shape


def test_equal_seeds_give_equal_parameters(trained: Any) -> None:
    algorithm, again = trained
    other = dict(again(12).named_parameters())
    for name, parameter in algorithm.named_parameters():
        assert torch.equal(parameter, other[name]), name
