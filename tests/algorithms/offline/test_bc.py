"""Behaviour cloning, by hand and on data whose best policy is known."""

import math
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from rein.algorithms.offline.bc import BcAlgorithm, BcInfo, BcLossInfo, BcState
from rein.data_structures import LossInfo, TimeStep
from rein.distributions import Categorical
from rein.framework import TrainerConfig
from rein.networks import ActorDistributionNetwork, ActorDistributionRNNNetwork, ActorNetwork, NormalProjectionNetwork
from rein.optimizers import SGD, Adam
from rein.specs import BoundedTensorSpec, TensorSpec

OBSERVATION = TensorSpec((1,))
ACTION = BoundedTensorSpec((1,), torch.float32, -2.0, 2.0)
LAST = 2


def test_the_loss_of_a_distribution_is_its_negative_log_likelihood(one_weight: Any, sequence: Any, losses: Any) -> None:
    algorithm = BcAlgorithm(OBSERVATION, ACTION, actor_network_cls=partial(one_weight.normal_actor, std=0.5))
    steps = sequence([[[1.0], [2.0]]])
    info, loss = losses(algorithm, steps, BcInfo(action=torch.tensor([[[1.0], [1.0]]])))
    # Means 0.5 and 1.0, deviation 0.5: standardised errors 1 and 0.
    constant = 0.5 * math.log(2 * math.pi) + math.log(0.5)
    torch.testing.assert_close(loss.loss, torch.tensor([[0.5 + constant], [constant]]))
    assert isinstance(info.actor, LossInfo)
    assert isinstance(loss.extra, BcLossInfo)
    torch.testing.assert_close(loss.extra.actor, loss.loss)


def test_the_loss_of_a_deterministic_policy_is_the_squared_error_over_the_whole_action(sequence: Any) -> None:
    spec = {"a": BoundedTensorSpec((2,), torch.float32, -1, 1), "b": BoundedTensorSpec((), torch.float32, -1, 1)}
    algorithm = BcAlgorithm(OBSERVATION, spec, actor_network_cls=ActorNetwork)
    taken = {"a": torch.tensor([[0.5, -0.5]]), "b": torch.tensor([0.25])}
    steps = TimeStep(observation=torch.tensor([[1.0]]), step_type=torch.ones(1, dtype=torch.int32))
    mine = algorithm.predict_step(steps, BcState()).output
    info = algorithm.train_step_offline(steps, BcState(), BcInfo(action=taken)).info
    expected = ((taken["a"] - mine["a"]) ** 2).sum() + (taken["b"] - mine["b"]) ** 2
    torch.testing.assert_close(info.actor.loss, expected.reshape(1))


def test_a_discrete_and_a_continuous_action_add_up(sequence: Any) -> None:
    spec = (BoundedTensorSpec((), torch.int64, 0, 2), BoundedTensorSpec((2,), torch.float32, -1.0, 1.0))
    algorithm = BcAlgorithm(OBSERVATION, spec, actor_network_cls=ActorDistributionNetwork)
    steps = TimeStep(observation=torch.tensor([[1.0]]), step_type=torch.ones(1, dtype=torch.int32))
    action = (torch.tensor([2]), torch.tensor([[0.1, 0.2]]))
    discrete, continuous = algorithm._actor_network(steps.observation)[0]
    assert isinstance(discrete, Categorical)
    loss = algorithm.train_step_offline(steps, BcState(), BcInfo(action=action)).info.actor.loss
    torch.testing.assert_close(loss, -discrete.log_prob(action[0]) - continuous.log_prob(action[1]))


def test_last_steps_do_not_count(one_weight: Any, sequence: Any, update: Any) -> None:
    def train(absurd: float) -> Any:
        algorithm = BcAlgorithm(
            OBSERVATION, ACTION, actor_network_cls=one_weight.normal_actor, actor_optimizer=SGD(lr=0.1)
        )
        steps = sequence([[[1.0], [2.0]]], step_type=[[1, LAST]])
        update(algorithm, steps, BcInfo(action=torch.tensor([[[1.0], [absurd]]])))
        return [parameter.clone() for parameter in algorithm.parameters()]

    assert all(torch.equal(a, b) for a, b in zip(train(0.0), train(1e6), strict=True))


def test_the_loss_tends_to_the_entropy_of_the_noise_and_the_mode_to_the_policy(one_weight: Any, update: Any) -> None:
    torch.manual_seed(0)
    algorithm = BcAlgorithm(
        OBSERVATION, ACTION, actor_network_cls=one_weight.normal_actor, actor_optimizer=Adam(lr=3e-2)
    )
    for _ in range(400):
        observation = torch.randn(64, 1, 1)
        action = 0.8 * observation + 0.1 * torch.randn_like(observation)
        ones = torch.ones(64, 1)
        steps = TimeStep(step_type=ones.int(), reward=ones, discount=ones, observation=observation)
        update(algorithm, steps, BcInfo(action=action))
    observation = torch.randn(4096, 1)
    action = 0.8 * observation + 0.1 * torch.randn_like(observation)
    steps = TimeStep(step_type=torch.ones(4096, dtype=torch.int32), observation=observation)
    loss = algorithm.train_step_offline(steps, BcState(), BcInfo(action=action)).info.actor.loss.mean()
    assert loss.item() == pytest.approx(0.5 * math.log(2 * math.pi * math.e) + math.log(0.1), abs=0.06)
    torch.testing.assert_close(algorithm.predict_step(steps, BcState()).output, 0.8 * observation, atol=0.1, rtol=0)


@pytest.mark.parametrize("bound", [-2.0, 2.0])
def test_actions_at_the_bounds_have_finite_loss_and_gradient_under_a_squashed_policy(bound: float) -> None:
    network = partial(
        ActorDistributionNetwork,
        fc_layer_params=(8,),
        continuous_projection_net_ctor=partial(
            NormalProjectionNetwork, squash_mean=False, state_dependent_std=True, scale_distribution=True
        ),
    )
    algorithm = BcAlgorithm(OBSERVATION, ACTION, actor_network_cls=network, actor_optimizer=Adam(lr=1e-2))
    steps = TimeStep(observation=torch.randn(16, 1), step_type=torch.ones(16, dtype=torch.int32))
    info = algorithm.train_step_offline(steps, BcState(), BcInfo(action=torch.full((16, 1), bound))).info
    algorithm.update_with_gradient(info.actor)
    assert torch.isfinite(info.actor.loss).all()
    assert all(torch.isfinite(parameter).all() for parameter in algorithm.parameters())


def test_evaluation_takes_the_mode_and_a_sample_with_chance_epsilon(one_weight: Any) -> None:
    steps = TimeStep(observation=torch.ones(1000, 1), step_type=torch.ones(1000, dtype=torch.int32))
    config = TrainerConfig("", epsilon_greedy=0.25)
    actor = partial(one_weight.normal_actor)
    from_config = BcAlgorithm(OBSERVATION, ACTION, actor_network_cls=actor, config=config)
    own = BcAlgorithm(OBSERVATION, ACTION, actor_network_cls=actor, config=config, epsilon_greedy=0.0)
    torch.manual_seed(0)
    other_than_mode = (from_config.predict_step(steps, BcState()).output != 0.5).float().mean()
    assert other_than_mode.item() == pytest.approx(0.25, abs=0.06)
    assert (own.predict_step(steps, BcState()).output == 0.5).all()
    explored = own.rollout_step(steps, BcState())
    assert explored.output.std() > 0.5
    torch.testing.assert_close(explored.info.action, explored.output)


def test_a_recurrent_policy_clones_what_depends_on_the_past(sequence: Any, update: Any) -> None:
    torch.manual_seed(0)
    algorithm = BcAlgorithm(
        OBSERVATION,
        BoundedTensorSpec((), torch.int64, 0, 1),
        actor_network_cls=partial(ActorDistributionRNNNetwork, lstm_hidden_size=8),
        actor_optimizer=Adam(lr=3e-2),
    )
    for _ in range(150):
        observation = torch.randint(0, 2, (32, 3, 1)).float()
        step_type = np.tile([0, 1, 1], (32, 1)).tolist()
        action = torch.cat([torch.zeros(32, 1), observation[:, :-1, 0]], 1).long()  # What was seen one step before.
        averaged = update(algorithm, sequence(observation.tolist(), step_type=step_type), BcInfo(action=action))
    assert averaged.loss.item() < 0.1


def test_networks_that_mix_distributions_and_actions_are_refused() -> None:
    class Half(ActorDistributionNetwork):
        def forward(self, inputs: Any, state: Any = ()) -> Any:
            (first, second), state = super().forward(inputs, state)
            return (first, second.mode), state

    spec = (BoundedTensorSpec((), torch.int64, 0, 2), ACTION)
    with pytest.raises(ValueError, match=r"distributions for \['0'\] and plain tensors for \['1'\]"):
        BcAlgorithm(OBSERVATION, spec, actor_network_cls=Half)
