"""One step of a learner against one update of the algorithm of that name, from the same weights and rows.

What is random is made the same on both sides: samples of normal distributions lie at fixed numbers of deviations, and target
actions have no noise.
"""

import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from rein.algorithms.losses import OneStepTDLoss
from rein.algorithms.off_policy.ddpg import DdpgAlgorithm
from rein.algorithms.off_policy.deterministic_actor_critic import DdpgInfo
from rein.algorithms.off_policy.dqn import DqnAlgorithm
from rein.algorithms.off_policy.mpo import MpoAlgorithm, MpoInfo
from rein.algorithms.off_policy.sac import SacAlgorithm
from rein.algorithms.off_policy.sac_structures import SacInfo
from rein.algorithms.off_policy.td3 import Td3Algorithm
from rein.data_structures import BatchInfo, Experience, StepType, TimeStep
from rein.distributions.base import LocationScale
from rein.learners import DDPG, DDQN, MPO, SAC, TD3, NetworkActor
from rein.learners.batches import ACT, DONE, DONE2, OBS, OBS2, REW, RHS, RHS2
from rein.networks import ActorDistributionNetwork, ActorNetwork, CriticNetwork, QNetwork
from rein.optimizers import Adam
from rein.specs import BoundedTensorSpec, TensorSpec

OBSERVATION, ACTION = TensorSpec((3,)), BoundedTensorSpec((2,), minimum=-1, maximum=2)
CHOICE = BoundedTensorSpec((), torch.int64, 0, 3)
DISCRETE = ("DDQN", "discrete SAC", "discrete MPO")
GAMMA, RATE, TAU, SIZE = 0.95, 1e-3, 0.01, 8


def half_squared(target: Tensor, value: Tensor) -> Tensor:
    return 0.5 * (target - value).square()


LOSS = partial(OneStepTDLoss, gamma=GAMMA, td_error_loss_fn=half_squared)
PLAIN = partial(OneStepTDLoss, gamma=GAMMA)
CRITIC = partial(CriticNetwork, joint_fc_layer_params=(8,))
POLICY, DISTRIBUTION = (partial(cls, fc_layer_params=(8,)) for cls in (ActorNetwork, ActorDistributionNetwork))
Q = partial(QNetwork, fc_layer_params=(8,))


@pytest.fixture(autouse=True)
def same_noise(monkeypatch: Any) -> None:
    def sample(self: LocationScale, sample_shape: tuple[int, ...] = ()) -> Tensor:
        if not sample_shape:
            return self.loc + 0.3 * self.scale
        noise = torch.linspace(-1.5, 2.0, sample_shape[0]).reshape(-1, *(1,) * self.loc.ndim)
        return self.loc + noise * self.scale

    monkeypatch.setattr(LocationScale, "normal_rsample", sample)


def adam() -> Any:
    # MPO's losses are averaged over twice as many steps: a small epsilon keeps that from mattering.
    return Adam(lr=RATE, eps=1e-14)


def make_algorithm(kind: str) -> Any:
    torch.manual_seed(0)
    common: Any = {"target_update_tau": TAU}
    deterministic: Any = {"actor_network_ctor": POLICY, "critic_network_ctor": CRITIC, "one_transition": True}
    optimizers: Any = {"actor_optimizer": adam(), "critic_optimizer": adam()}
    if kind == "DDQN":
        return DqnAlgorithm(
            OBSERVATION, CHOICE, q_network_cls=Q, q_optimizer=adam(), target_net_target_action=False, num_critic_replicas=1,
            critic_loss_ctor=PLAIN, one_transition=True, **common,
        )  # fmt: skip
    if kind == "DDPG":
        return DdpgAlgorithm(
            OBSERVATION, ACTION, critic_loss_ctor=LOSS, num_critic_replicas=1, **deterministic, **optimizers, **common
        )
    if kind == "TD3":
        return Td3Algorithm(
            OBSERVATION, ACTION, critic_loss_ctor=LOSS, actor_update_period=1, target_action_noise=0.0,
            **deterministic, **optimizers, **common,
        )  # fmt: skip
    if kind == "SAC":
        return SacAlgorithm(
            OBSERVATION, ACTION, actor_network_cls=DISTRIBUTION, critic_network_cls=CRITIC, critic_loss_ctor=LOSS,
            alpha_optimizer=adam(), target_entropy=-2.0, one_transition=True, **optimizers, **common,
        )  # fmt: skip
    if kind == "discrete SAC":
        return SacAlgorithm(
            OBSERVATION, CHOICE, discrete_actor_network_cls=DISTRIBUTION, q_network_cls=Q, critic_loss_ctor=LOSS,
            alpha_optimizer=adam(), target_entropy=0.98 * math.log(4), one_transition=True, **optimizers, **common,
        )  # fmt: skip
    spec = CHOICE if kind == "discrete MPO" else ACTION
    return MpoAlgorithm(
        OBSERVATION, spec, actor_network_ctor=DISTRIBUTION, critic_network_ctor=CRITIC, q_network_ctor=Q,
        critic_loss_ctor=LOSS, mstep_iterations=1, sample_action_num=5, **optimizers, **common,
    )  # fmt: skip


def one_of(stacked: Tensor, index: int, like: Tensor) -> Tensor:
    """The parameter of one of several critics that are evaluated at once, whose matrices are stored the other way round."""
    one = stacked[index]
    return one if one.shape == like.shape else one.squeeze(0) if one.shape[1:] == like.shape else one.t()


def make_learner(kind: str, algorithm: Any) -> Any:
    discrete = kind in DISCRETE
    spec = CHOICE if discrete else ACTION
    count = 2 if kind in ("TD3", "SAC", "discrete SAC") else 1
    critics = [Q(OBSERVATION, CHOICE) if discrete else CRITIC((OBSERVATION, ACTION)) for _ in range(count)]
    policy = None
    if kind != "DDQN":
        policy = (POLICY if kind in ("DDPG", "TD3") else DISTRIBUTION)(OBSERVATION, spec)
        policy.load_state_dict(algorithm._actor_network.state_dict())
    for index, critic in enumerate(critics):
        with torch.no_grad():
            sources = list(algorithm._critic_networks.parameters())
            for parameter, source in zip(critic.parameters(), sources, strict=True):
                parameter.copy_(one_of(source, index, parameter))
    actor = NetworkActor(spec, *critics, *(() if count == 2 else (None,)), policy)
    settings: Any = {"gamma": GAMMA, "polyak": 1 - TAU, "max_grad_norm": 1e9}
    rates: Any = {"lr_q": RATE, "lr_pi": RATE}
    if kind == "DDQN":
        return DDQN("cpu", None, actor, lr=RATE, **settings)
    if "SAC" in kind:
        return SAC("cpu", None, actor, lr_alpha=RATE, **rates, **settings)
    if kind == "DDPG":
        return DDPG("cpu", None, actor, **rates, **settings)
    if kind == "TD3":
        learner = TD3("cpu", None, actor, **rates, **settings)
        learner.algorithm._target_action_noise = 0.0
        return learner
    return MPO("cpu", None, actor, mstep_iterations=1, sample_action_num=5, **rates, **settings)


def make_data(discrete: bool, info: Any, seed: int, ends: StepType) -> tuple[Experience, dict[str, Any]]:
    torch.manual_seed(seed)
    observation, reward = torch.randn(SIZE, 2, 3), torch.randn(SIZE, 2)
    action = torch.randint(4, (SIZE, 2)) if discrete else torch.rand(SIZE, 2, 2) * 3 - 1
    discount = (torch.arange(SIZE) % 4 != 0).float().unsqueeze(1).repeat(1, 2)
    step_type = torch.tensor([[StepType.MID, ends]], dtype=torch.int32).repeat(SIZE, 1)
    step = TimeStep(step_type=step_type, reward=reward, discount=discount, observation=observation)
    experience = Experience(step, rollout_info=info(action=action), batch_info=BatchInfo())
    rhs = {name: torch.zeros(SIZE, 1) for name in ("rhs_act", "rhs_q1", "rhs_q2")}
    batch = {
        OBS: observation[:, 0],
        RHS: rhs,
        DONE: torch.zeros(SIZE, 1),
        ACT: action[:, :1].float() if discrete else action[:, 0],
        REW: reward[:, 1:],
        OBS2: observation[:, 1],
        RHS2: rhs,
        DONE2: 1 - discount[:, 1:],
    }
    return experience, batch


@pytest.mark.parametrize("kind", ["DDQN", "DDPG", "TD3", "SAC", "discrete SAC", "MPO", "discrete MPO"])
def test_steps_equal_updates_of_the_algorithm(kind: str) -> None:
    algorithm = make_algorithm(kind)
    learner = make_learner(kind, algorithm)
    info = DdpgInfo if kind in ("DDPG", "TD3") else MpoInfo if "MPO" in kind else SacInfo
    # MPO improves the policy at every step that is not the last of an episode.
    ends = StepType.LAST if "MPO" in kind else StepType.MID
    for optimizer in learner.optimizers.values():
        optimizer.param_groups[0]["eps"] = 1e-14
    for seed in range(3):
        experience, batch = make_data(kind in DISCRETE, info, seed, ends)
        algorithm.apply_gradients(algorithm.compute_gradients(experience))
        grads, _ = learner.compute_gradients(batch)
        learner.apply_gradients(grads)
    sides = [
        (learner.actor, algorithm._critic_networks),
        (learner.actor_targets, algorithm._target_critic_networks),
    ]
    for actor, networks in sides:
        for index, name in enumerate(learner.critic_names):
            for parameter, other in zip(getattr(actor, name).parameters(), networks.parameters(), strict=True):
                expected = one_of(other, index, parameter).detach()
                torch.testing.assert_close(parameter.detach(), expected, rtol=0, atol=1e-6)
    if learner.policy_kind:
        theirs = algorithm._actor_network.parameters()
        for parameter, other in zip(learner.actor.policy_net.parameters(), theirs, strict=True):
            torch.testing.assert_close(parameter, other, rtol=0, atol=1e-6)
    if "SAC" in kind:
        torch.testing.assert_close(learner.log_alpha.detach(), algorithm._log_alpha.detach(), rtol=0, atol=1e-6)
    if "MPO" in kind:
        torch.testing.assert_close(learner.multipliers, algorithm._multipliers.detach(), rtol=1e-4, atol=1e-6)
        torch.testing.assert_close(learner.eta, algorithm._temperature, rtol=1e-5, atol=1e-6)
