"""Every off-policy algorithm: whole sequences give what its `train_step` gives step by step, wherever a loss looks."""

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
    OacAlgorithm,
    QrsacAlgorithm,
    SacAlgorithm,
    SarsaAlgorithm,
    TaacAlgorithm,
    TaacLAlgorithm,
    TaacQAlgorithm,
    Td3Algorithm,
)
from rein.algorithms.off_policy.ddpg import DdpgInfo
from rein.algorithms.off_policy.mdq import MdqInfo
from rein.algorithms.off_policy.mpo import MpoInfo
from rein.algorithms.off_policy.sac_structures import SacInfo
from rein.algorithms.off_policy.sarsa import SarsaInfo
from rein.algorithms.off_policy.taac_structures import TaacInfo
from rein.algorithms.off_policy.taac_trajectories import Tau
from rein.data_structures import Experience, StepType, TimeStep
from rein.distributions import Categorical, distributions_to_params, stack_distributions
from rein.framework import Batch
from rein.framework.updating.gradients import train_info, valid_masks
from rein.networks import (
    ActionQuantizer,
    ActorDistributionNetwork,
    ActorNetwork,
    CriticNetwork,
    MdqCriticNetwork,
    NestConcat,
    NormalProjectionNetwork,
    QNetwork,
)
from rein.specs import BoundedTensorSpec, TensorSpec

OBSERVATION = TensorSpec((3,))
CONTINUOUS = BoundedTensorSpec((2,), torch.float32, -2.0, 2.0)
DISCRETE = BoundedTensorSpec((), torch.int64, 0, 2)
PROJECTION = partial(NormalProjectionNetwork, state_dependent_std=True, scale_distribution=True, squash_mean=False)
STOCHASTIC = partial(ActorDistributionNetwork, fc_layer_params=(4,), continuous_projection_net_ctor=PROJECTION)
ACTOR = partial(ActorNetwork, fc_layer_params=(4,))
CRITIC = partial(CriticNetwork, joint_fc_layer_params=(4,))
Q = partial(QNetwork, fc_layer_params=(4,))
SIZE = 5


def mdq_network(specs: Any) -> MdqCriticNetwork:
    return MdqCriticNetwork(specs, ActionQuantizer(specs[1], 15), mid_encoding_layer_params=(4,))


def courses(order: int, action: Any) -> TaacInfo:
    def course() -> Tau:
        return Tau(*[torch.rand_like(action) * 2 - 1 for _ in range(order + 1)])

    return TaacInfo(tau=course(), prev_tau=course(), rollout_b=torch.randint(0, 2, action.shape[:2]))


STOCHASTIC_NETWORKS = {"actor_network_cls": STOCHASTIC, "critic_network_cls": CRITIC}
DETERMINISTIC_NETWORKS = {"actor_network_ctor": ACTOR, "critic_network_ctor": CRITIC}
CASES: dict[str, tuple[Any, Any, Callable[[Any], Any], dict[str, Any]]] = {
    "sac": (SacAlgorithm, CONTINUOUS, lambda a: SacInfo(action=a), STOCHASTIC_NETWORKS),
    "sac_discrete": (SacAlgorithm, DISCRETE, lambda a: SacInfo(action=a), {"q_network_cls": Q}),
    "sac_mixed": (
        SacAlgorithm,
        (DISCRETE, CONTINUOUS),
        lambda a: SacInfo(action=a),
        {"actor_network_cls": STOCHASTIC, "q_network_cls": partial(Q, preprocessing_combiner=NestConcat())},
    ),
    "qrsac": (QrsacAlgorithm, CONTINUOUS, lambda a: SacInfo(action=a), STOCHASTIC_NETWORKS),
    "oac": (OacAlgorithm, CONTINUOUS, lambda a: SacInfo(action=a), STOCHASTIC_NETWORKS),
    "dqn": (DqnAlgorithm, DISCRETE, lambda a: SacInfo(action=a), {"q_network_cls": Q}),
    "ddqn": (
        DqnAlgorithm,
        DISCRETE,
        lambda a: SacInfo(action=a),
        {"q_network_cls": Q, "target_net_target_action": False},
    ),
    "ddpg": (DdpgAlgorithm, CONTINUOUS, lambda a: DdpgInfo(action=a), DETERMINISTIC_NETWORKS),
    "td3": (
        Td3Algorithm,
        CONTINUOUS,
        lambda a: DdpgInfo(action=a),
        {**DETERMINISTIC_NETWORKS, "actor_update_period": 1},
    ),
    "sarsa": (SarsaAlgorithm, CONTINUOUS, lambda a: SarsaInfo(action=a), DETERMINISTIC_NETWORKS),
    "sarsa_stochastic": (
        SarsaAlgorithm,
        CONTINUOUS,
        lambda a: SarsaInfo(action=a),
        {"actor_network_ctor": STOCHASTIC, "critic_network_ctor": CRITIC},
    ),
    "mdq": (MdqAlgorithm, CONTINUOUS, lambda a: MdqInfo(action=a), {"critic_network": mdq_network}),
    "mpo": (
        MpoAlgorithm,
        CONTINUOUS,
        lambda a: MpoInfo(action=a),
        {"actor_network_ctor": STOCHASTIC, "critic_network_ctor": CRITIC, "mstep_iterations": 1},
    ),
    "taac": (TaacAlgorithm, CONTINUOUS, partial(courses, 0), STOCHASTIC_NETWORKS),
    "taac_l": (TaacLAlgorithm, CONTINUOUS, partial(courses, 1), STOCHASTIC_NETWORKS),
    "taac_q": (TaacQAlgorithm, CONTINUOUS, partial(courses, 2), STOCHASTIC_NETWORKS),
}


def sequences(action_spec: Any, info: Callable[[Any], Any], length: int) -> Experience:
    step_type = torch.full((SIZE, length), StepType.MID, dtype=torch.int32)
    discount = torch.ones(SIZE, length)
    step_type[1, 0], step_type[1, 1] = StepType.LAST, StepType.FIRST
    step_type[2, -1], discount[2, -1] = StepType.LAST, 0.0
    action = nest.map_structure(lambda spec: spec.sample((SIZE, length)), action_spec)
    time_step = TimeStep(
        step_type=step_type,
        reward=torch.randn(SIZE, length),
        discount=discount,
        observation=torch.randn(SIZE, length, 3),
        prev_action=action,
        env_id=torch.zeros(SIZE, length, dtype=torch.int64),
    )
    return Experience(time_step=time_step, rollout_info=info(action))


@pytest.fixture
def fixed_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples are the same however steps are batched."""
    monkeypatch.setattr(torch, "randn_like", lambda x, **_: torch.full_like(x, 0.3))
    monkeypatch.setattr(torch, "randn", lambda *shape, **_: torch.zeros(*shape) + 0.3)
    monkeypatch.setattr(torch, "multinomial", lambda probs, _: probs.argmax(-1, keepdim=True))
    monkeypatch.setattr(Categorical, "sample", lambda self, shape=(): self.mode.expand(*shape, *self.mode.shape))


def make(case: str, length: int, **changes: Any) -> tuple[Any, Experience]:
    cls, action_spec, info, settings = CASES[case]
    torch.manual_seed(0)
    algorithm = cls(observation_spec=OBSERVATION, action_spec=action_spec, **{**settings, **changes})
    data = sequences(action_spec, info, length)
    with torch.no_grad():  # targets that differ from what they follow, so that mixing them up is seen
        for name, parameter in algorithm.named_parameters():
            parameter.add_(0.1 if "target" in name else 0.0)
    return algorithm, data


def by_steps(algorithm: Any, data: Experience) -> Any:
    """Infos [T, B, ...] of `train_step`, one call for each step."""
    infos = []
    for t in range(data.step_type.shape[1]):
        inputs, rollout_info = nest.map_structure(lambda x, t=t: x[:, t], (data.time_step, data.rollout_info))
        infos.append(algorithm.train_step(inputs, type(algorithm.train_state_spec)(), rollout_info).info)
    return stack_distributions(infos)


def seen_by_losses(path: str, rows: torch.Tensor) -> torch.Tensor:
    """The rows that a loss may look at: nothing bootstraps from the first step, no critic has a loss at the last."""
    if "target" in path or "kl_wrt_prior" in path:
        return rows[1:] if path != "critic.distill_target" else rows
    return rows[:-1] if path.endswith(("critics", "q_values", "critic_free_form")) else rows


@pytest.mark.parametrize("case", CASES)
def test_sequences_give_what_single_steps_give(case: str, fixed_noise: None) -> None:
    algorithm, data = make(case, length=4)
    together = dict(
        nest.flatten_with_paths(
            distributions_to_params(train_info(algorithm, Batch(data), algorithm.learning.settings))
        )
    )
    apart = dict(nest.flatten_with_paths(distributions_to_params(by_steps(algorithm, data))))
    assert together.keys() == apart.keys()
    for path, rows in together.items():
        if path == "temperature":  # of all steps together
            continue
        assert rows.shape == apart[path].shape, path
        found, expected = seen_by_losses(path, rows).double(), seen_by_losses(path, apart[path]).double()
        assert torch.allclose(found, expected, atol=1e-5), path


WITHOUT_ONE_TRANSITION = ("mpo", "taac", "taac_l", "taac_q")


@pytest.mark.parametrize(
    ("case", "one_transition"),
    [(case, False) for case in CASES] + [(case, True) for case in CASES if case not in WITHOUT_ONE_TRANSITION],
)
def test_losses_and_gradients_are_the_same(case: str, one_transition: bool, fixed_noise: None) -> None:
    algorithm, data = make(case, length=2, **({"one_transition": True} if one_transition else {}))
    valid = valid_masks(data.step_type.T)
    found = []
    for infos in (train_info(algorithm, Batch(data), algorithm.learning.settings), by_steps(algorithm, data)):
        if case == "mpo":
            infos = infos._replace(temperature=torch.ones_like(infos.temperature))
        loss = algorithm.calc_loss(infos).loss
        algorithm.zero_grad()
        (loss if one_transition else loss * valid).mean().backward()
        gradients = {name: p.grad.clone() for name, p in algorithm.named_parameters() if p.grad is not None}
        found.append((loss if one_transition else loss * valid, gradients))
    assert torch.allclose(found[0][0], found[1][0], atol=1e-5)
    assert found[0][1].keys() == found[1][1].keys() != set()
    if "_log_alpha" in dict(algorithm.named_parameters()) and case not in ("dqn", "ddqn"):
        assert "_log_alpha" in found[0][1]
    for name, gradient in found[0][1].items():
        assert torch.allclose(gradient, found[1][1][name], atol=1e-4, rtol=1e-4), name
