"""Rewards of shape (), (1,) and (D,): all algorithms learn from them, by replicated critics or by critics of that output."""

from functools import partial
from typing import Any

import pytest
import torch

from rein.algorithms.off_policy import DdpgAlgorithm, SacAlgorithm, SarsaAlgorithm, TaacAlgorithm, Td3Algorithm
from rein.algorithms.off_policy.ddpg import DdpgInfo
from rein.algorithms.off_policy.sac_structures import SacInfo
from rein.algorithms.off_policy.sarsa import SarsaInfo
from rein.algorithms.off_policy.taac_structures import TaacInfo
from rein.algorithms.off_policy.taac_trajectories import Tau
from rein.data_structures import Experience, StepType, TimeStep
from rein.framework import Batch, TrainerConfig
from rein.networks import ActorDistributionNetwork, ActorNetwork, CriticNetwork, NormalProjectionNetwork
from rein.optimizers import SGD
from rein.specs import BoundedTensorSpec, TensorSpec

OBSERVATION, ACTION = TensorSpec((3,)), BoundedTensorSpec((2,), torch.float32, -1.0, 1.0)
SIZE, LENGTH = 6, 3
PROJECTION = partial(NormalProjectionNetwork, state_dependent_std=True, scale_distribution=True)
STOCHASTIC = partial(ActorDistributionNetwork, fc_layer_params=(4,), continuous_projection_net_ctor=PROJECTION)
ACTOR = partial(ActorNetwork, fc_layer_params=(4,))


def course(action: Any) -> TaacInfo:
    return TaacInfo(tau=Tau(action), prev_tau=Tau(action), rollout_b=torch.ones(action.shape[:2]).long())


CASES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "ddpg": (DdpgAlgorithm, lambda a: DdpgInfo(action=a), {"actor_network_ctor": ACTOR, "num_critic_replicas": 2}),
    "td3": (Td3Algorithm, lambda a: DdpgInfo(action=a), {"actor_network_ctor": ACTOR, "actor_update_period": 1}),
    "sarsa": (SarsaAlgorithm, lambda a: SarsaInfo(action=a), {"actor_network_ctor": ACTOR}),
    "sarsa_stochastic": (SarsaAlgorithm, lambda a: SarsaInfo(action=a), {"actor_network_ctor": STOCHASTIC}),
    "sac": (SacAlgorithm, lambda a: SacInfo(action=a), {"actor_network_cls": STOCHASTIC}),
    "taac": (TaacAlgorithm, course, {"actor_network_cls": STOCHASTIC}),
}


def train(case: str, shape: tuple[int, ...], output: tuple[int, ...]) -> Any:
    """One update; the rewards are those of a scalar, repeated."""
    cls, info, settings = CASES[case]
    torch.manual_seed(0)
    name = "critic_network_cls" if "actor_network_cls" in settings else "critic_network_ctor"
    critic = partial(CriticNetwork, output_tensor_spec=TensorSpec(output), joint_fc_layer_params=(4,))
    algorithm = cls(
        observation_spec=OBSERVATION,
        action_spec=ACTION,
        reward_spec=TensorSpec(shape),
        config=TrainerConfig("", mini_batch_length=LENGTH, mini_batch_size=SIZE, whole_replay_buffer_training=False),
        actor_optimizer=SGD(lr=0.1),
        critic_optimizer=SGD(lr=0.1),
        **{name: critic, **settings},
    )
    with torch.no_grad():
        for parameter in algorithm.parameters():
            if parameter.ndim:  # replicas are the same
                parameter.copy_(0.3 * torch.arange(parameter.shape[-1]).cos().expand_as(parameter))
    torch.manual_seed(1)
    reward = torch.randn(SIZE, LENGTH)
    time_step = TimeStep(
        step_type=torch.full((SIZE, LENGTH), StepType.MID, dtype=torch.int32),
        reward=reward.reshape(SIZE, LENGTH, *[1 for _ in shape]).expand(SIZE, LENGTH, *shape),
        discount=torch.ones(SIZE, LENGTH),
        observation=torch.randn(SIZE, LENGTH, 3),
        prev_action=ACTION.sample((SIZE, LENGTH)),
        env_id=torch.zeros(SIZE, LENGTH, dtype=torch.int64),
    )
    experience = Experience(time_step=time_step, rollout_info=info(ACTION.sample((SIZE, LENGTH))))
    algorithm.learning.update([Batch(experience)])
    return algorithm


@pytest.mark.parametrize("output", [(), (1,)])
@pytest.mark.parametrize("case", CASES)
def test_one_reward_in_a_vector_is_a_scalar_reward(case: str, output: tuple[int, ...]) -> None:
    scalar, vector = train(case, (), ()), train(case, (1,), output)
    for (name, expected), found in zip(scalar.named_parameters(), vector.parameters(), strict=True):
        assert torch.allclose(found.flatten(), expected.flatten(), atol=1e-6), name


@pytest.mark.parametrize("output", [(), (3,)])
@pytest.mark.parametrize("case", CASES)
def test_the_policy_climbs_the_sum_of_several_rewards(case: str, output: tuple[int, ...]) -> None:
    scalar, vector = train(case, (), ()), train(case, (3,), output)
    actors = zip(scalar._actor_network.parameters(), vector._actor_network.parameters(), strict=True)
    assert any(not torch.allclose(a, b, atol=1e-7) for a, b in actors)  # dQ/da is three times as large


@pytest.mark.parametrize("case", CASES)
def test_critics_of_another_output_are_refused(case: str) -> None:
    with pytest.raises(ValueError, match="as many values as rewards"):
        train(case, (3,), (2,))
