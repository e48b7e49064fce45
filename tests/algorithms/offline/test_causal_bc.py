"""Causal cloning: its two losses by hand, what they may and may not move, and data with lasting noise."""

import math
from functools import partial
from typing import Any

import pytest
import torch

from rein.algorithms.offline.bc import BcAlgorithm
from rein.algorithms.offline.bc import BcInfo as PlainInfo
from rein.algorithms.offline.causal_bc import BcInfo, BcState, CausalBcAlgorithm
from rein.data_structures import TimeStep
from rein.framework import TrainerConfig
from rein.networks import EncodingNetwork
from rein.networks.layers import identity
from rein.optimizers import SGD, Adam
from rein.specs import BoundedTensorSpec, TensorSpec

OBSERVATION = TensorSpec((1,))
ACTION = BoundedTensorSpec((1,), torch.float32, -2.0, 2.0)
FIRST, MID, LAST = 0, 1, 2


def make(one_weight: Any, residual_weight: float = 0.0, **arguments: Any) -> CausalBcAlgorithm:
    """A policy 0.5 s, a residual w s, weights 0.1 and 0.5 unless given."""
    return CausalBcAlgorithm(
        OBSERVATION,
        ACTION,
        actor_network_cls=one_weight.actor,
        discriminator_network_cls=partial(one_weight.actor, weight=residual_weight),
        **{"f_norm_penalty_weight": 0.1, "bc_regulatization_weight": 0.5, **arguments},
    )


def test_losses_by_hand(one_weight: Any, sequence: Any, losses: Any) -> None:
    algorithm = make(one_weight, residual_weight=3.0)
    steps = sequence([[[1.0], [2.0], [4.0]]], step_type=[[FIRST, MID, MID]])
    _, loss = losses(algorithm, steps, BcInfo(action=torch.tensor([[[9.0], [1.5], [1.0]]])))
    # e_1 = 1.5 - 1 = 0.5 with f_0 = 3; e_2 = 1 - 2 = -1 with f_1 = 6.
    actor = [2 * 0.5 * 3 + 0.5 * 0.25, 2 * -1 * 6 + 0.5 * 1, 0.0]
    discriminator = [-(2 * 0.5 * 3 - 9) + 0.1 * 3, -(2 * -1 * 6 - 36) + 0.1 * 6, 0.0]
    torch.testing.assert_close(loss.extra.actor[:, 0], torch.tensor(actor))
    torch.testing.assert_close(loss.extra.discriminator[:, 0], torch.tensor(discriminator))
    torch.testing.assert_close(loss.loss, loss.extra.actor + loss.extra.discriminator)


def test_the_penalty_is_the_norm_of_each_sample_and_errors_are_averaged_over_the_action(losses: Any) -> None:
    spec = BoundedTensorSpec((2,), torch.float32, -9.0, 9.0)

    class Two(EncodingNetwork):
        def forward(self, inputs: Any, state: Any = ()) -> Any:
            return inputs.new_tensor([3.0, 4.0]).expand(*inputs.shape[:-1], 2) + 0 * super().forward(inputs)[0], state

    algorithm = CausalBcAlgorithm(
        OBSERVATION,
        spec,
        discriminator_network_cls=partial(Two, last_layer_size=2, last_activation=identity),
        f_norm_penalty_weight=0.1,
    )
    ones = torch.ones(5, 2)
    steps = TimeStep(step_type=ones.int(), reward=ones, discount=ones, observation=torch.zeros(5, 2, 1))
    with torch.no_grad():
        mode = algorithm.train_step(
            steps._replace(observation=torch.zeros(5, 1)), BcState(), BcInfo(action=mode_like(5))
        )
    action = (mode.info.actor + torch.tensor([1.0, -1.0])).unsqueeze(1).expand(5, 2, 2)
    _, loss = losses(algorithm, steps, BcInfo(action=action))
    # e = (1, -1), f = (3, 4): the products average to -0.5, the squares to 12.5, the norm is 5, whatever the batch.
    torch.testing.assert_close(loss.extra.discriminator[0], torch.full((5,), -(2 * -0.5 - 12.5) + 0.1 * 5))


def mode_like(batch: int) -> torch.Tensor:
    return torch.zeros(batch, 2)


def test_pairs_across_episodes_and_those_that_end_with_the_last_step_do_not_count(
    one_weight: Any, sequence: Any, losses: Any
) -> None:
    algorithm = make(one_weight, residual_weight=1.0)
    steps = sequence([[[1.0], [1.0], [1.0], [1.0], [1.0]]], step_type=[[FIRST, MID, LAST, FIRST, MID]])
    _, loss = losses(algorithm, steps, BcInfo(action=torch.full((1, 5, 1), 1.5)))
    assert (loss.loss[:, 0] != 0).tolist() == [True, False, False, True, False]


def test_without_a_residual_the_gradient_is_that_of_the_weighted_squared_error(one_weight: Any, sequence: Any) -> None:
    algorithm = make(one_weight)
    steps = sequence([[[1.0], [2.0]]])
    action = torch.tensor([[[0.0], [3.0]]])
    loss = _loss(algorithm, steps, action)
    (gradient,) = torch.autograd.grad(loss.sum(), [algorithm._actor_network.weight], retain_graph=True)
    assert gradient.item() == pytest.approx(0.5 * 2 * (3.0 - 0.5 * 2.0) * -2.0)


def test_gradients_do_not_cross(one_weight: Any, sequence: Any, losses: Any) -> None:
    algorithm = make(one_weight, residual_weight=2.0)
    steps = sequence([[[1.0], [2.0]]])
    _, loss = losses(algorithm, steps, BcInfo(action=torch.ones(1, 2, 1)))
    policy, residual = algorithm._actor_network.weight, algorithm._discriminator_network.weight
    assert torch.autograd.grad(loss.extra.actor.sum(), [residual], allow_unused=True, retain_graph=True) == (None,)
    assert torch.autograd.grad(loss.extra.discriminator.sum(), [policy], allow_unused=True, retain_graph=True) == (
        None,
    )
    assert torch.autograd.grad(loss.loss.sum(), [policy], retain_graph=True)[0] != 0
    assert torch.autograd.grad(loss.loss.sum(), [residual])[0] != 0


def test_the_residual_learns_the_part_of_the_error_that_the_step_before_tells(one_weight: Any, update: Any) -> None:
    torch.manual_seed(0)
    algorithm = make(one_weight, f_norm_penalty_weight=0.0, discriminator_optimizer=SGD(lr=0.1))
    for _ in range(200):
        observation = torch.randn(64, 2, 1)
        action = 0.5 * observation
        action[:, 1] += 0.7 * observation[:, 0] + 0.1 * torch.randn(64, 1)
        update(algorithm, _steps(observation), BcInfo(action=action))
    assert algorithm._discriminator_network.weight.item() == pytest.approx(0.7, abs=0.05)
    assert algorithm._actor_network.weight.item() == 0.5  # It has no optimizer here.


def test_it_is_less_misled_by_lasting_noise_than_cloning(one_weight: Any, update: Any) -> None:
    """The noise of t - 1 is seen in s_t and goes on at t: cloning takes it for what the expert means."""
    torch.manual_seed(0)
    cloning = BcAlgorithm(OBSERVATION, ACTION, actor_network_cls=one_weight.actor, actor_optimizer=Adam(lr=1e-2))
    causal = make(
        one_weight,
        actor_optimizer=Adam(lr=1e-2),
        discriminator_optimizer=Adam(lr=3e-2),
        f_norm_penalty_weight=0.001,
        bc_regulatization_weight=0.05,
    )
    errors = []
    for algorithm, info in ((cloning, PlainInfo), (causal, BcInfo)):
        for _ in range(600):
            observation, action = _confounded(128, expert=-0.5)
            update(algorithm, _steps(observation), info(action=action))
        errors.append(abs(algorithm._actor_network.weight.item() + 0.5))
    assert errors[0] > 0.1
    assert errors[1] < 0.5 * errors[0]


def _confounded(batch: int, expert: float) -> Any:
    """s_{t+1} = 0.9 s_t + a_t with a_t = expert s_t + u_t + u_{t-1}; two steps from the middle of an episode."""
    state, before = torch.randn(batch, 1), torch.randn(batch, 1)
    observations, actions = [], []
    for _ in range(6):
        noise = 0.5 * torch.randn(batch, 1)
        action = expert * state + noise + before
        observations.append(state)
        actions.append(action)
        state, before = 0.9 * state + action, noise
    return torch.stack(observations[-2:], 1), torch.stack(actions[-2:], 1)


def test_single_steps_are_refused_early_and_late(one_weight: Any, sequence: Any, losses: Any) -> None:
    with pytest.raises(ValueError, match="mini_batch_length is 1: make it at least 2"):
        make(one_weight, config=TrainerConfig("", mini_batch_length=1))
    with pytest.raises(ValueError, match="sequences of one step"):
        losses(make(one_weight), sequence([[[1.0]]]), BcInfo(action=torch.ones(1, 1, 1)))


def test_discrete_actions_are_refused(one_weight: Any) -> None:
    with pytest.raises(ValueError, match="CausalBcAlgorithm needs continuous actions, but the action is"):
        CausalBcAlgorithm(OBSERVATION, BoundedTensorSpec((), torch.int64, 0, 1))


def test_the_default_discriminator_gets_the_output_that_it_needs() -> None:
    wide, spec = TensorSpec((5,)), BoundedTensorSpec((5,), torch.float32, -1.0, 1.0)
    for observation, action, network in (
        (TensorSpec((3,)), ACTION, EncodingNetwork),
        (wide, spec, EncodingNetwork),  # As wide as the action, but without a parameter.
        (wide, spec, partial(EncodingNetwork, fc_layer_params=(7,))),
    ):
        algorithm = CausalBcAlgorithm(observation, action, discriminator_network_cls=network)
        assert algorithm._discriminator_network.output_spec.shape == action.shape
        assert list(algorithm._discriminator_network.parameters())
    complete = partial(EncodingNetwork, last_layer_size=5, last_activation=identity)
    algorithm = CausalBcAlgorithm(wide, spec, discriminator_network_cls=complete)
    assert isinstance(algorithm._discriminator_network, EncodingNetwork)


@pytest.mark.parametrize("name", ["f_norm_penalty_weight", "bc_regulatization_weight"])
def test_negative_weights_are_refused(one_weight: Any, name: str) -> None:
    for value in (-1.0, math.nan):
        with pytest.raises(ValueError, match=f"{name} is {value}"):
            make(one_weight, **{name: value})


def _steps(observation: torch.Tensor) -> TimeStep:
    ones = torch.ones(observation.shape[:2])
    return TimeStep(step_type=ones.int(), reward=ones, discount=ones, observation=observation)


def _loss(algorithm: CausalBcAlgorithm, steps: TimeStep, action: torch.Tensor) -> torch.Tensor:
    from rein.data_structures import Experience
    from rein.framework import Batch
    from rein.framework.updating.gradients import train_info

    batch = Batch(Experience(steps, rollout_info=BcInfo(action=action)))
    info = train_info(algorithm, batch, algorithm.learning.settings)
    return algorithm.calc_loss(info).loss
