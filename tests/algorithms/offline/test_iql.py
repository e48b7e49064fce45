"""Implicit Q-learning: every loss by hand, what has a gradient, and a small problem whose answer is known."""

import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import nn

from rein import nest
from rein.algorithms.losses import TDLoss
from rein.algorithms.offline.iql import IqlAlgorithm, IqlCriticInfo, IqlInfo, IqlState
from rein.data_structures import TimeStep
from rein.distributions import stack_distributions
from rein.framework import TrainerConfig
from rein.networks import (
    ActorDistributionRNNNetwork,
    ActorNetwork,
    CriticRNNNetwork,
    Network,
    ValueRNNNetwork,
)
from rein.networks.state import zero_state
from rein.optimizers import SGD, Adam
from rein.specs import BoundedTensorSpec, TensorSpec

OBSERVATION = TensorSpec((1,))
ACTION = BoundedTensorSpec((1,), torch.float32, -2.0, 2.0)
FIRST, MID, LAST = 0, 1, 2


def make(one_weight: Any, **arguments: Any) -> IqlAlgorithm:
    """pi = N(0.5 s, 1), Q = s + 2 a, V = s."""
    networks = {
        "actor_network_cls": one_weight.normal_actor,
        "critic_network_cls": one_weight.critic,
        "v_network_cls": one_weight.value,
    }
    return IqlAlgorithm(OBSERVATION, ACTION, **{**networks, **arguments})


def log_probability(action: float, mean: float) -> float:
    return -0.5 * (action - mean) ** 2 - 0.5 * math.log(2 * math.pi)


def set_critics(
    algorithm: IqlAlgorithm, critics: list[tuple[float, float]], targets: list[tuple[float, float]]
) -> None:
    for network, pairs in ((algorithm._critic_networks, critics), (algorithm._target_critic_networks, targets)):
        u, v = (p for p in network.parameters())
        with torch.no_grad():
            u.copy_(torch.tensor([pair[0] for pair in pairs]).reshape(u.shape))
            v.copy_(torch.tensor([pair[1] for pair in pairs]).reshape(v.shape))


def test_losses_by_hand(one_weight: Any, sequence: Any, losses: Any) -> None:
    algorithm = make(one_weight, expectile=0.8, temperature=2.0)
    set_critics(algorithm, [(1.0, 2.0), (0.0, 1.0)], [(1.0, 1.0), (1.0, 3.0)])
    steps = sequence([[[1.0], [2.0]]], reward=[[9.0, 0.5]])
    info, loss = losses(algorithm, steps, IqlInfo(action=torch.tensor([[[0.5], [-0.5]]])))
    # Target critics: min(1.5, 2.5) = 1.5 and min(1.5, 0.5) = 0.5; V = 1 and 2: advantages 0.5 and -1.5.
    value = [0.8 * 0.5**2, 0.2 * 1.5**2]
    target = 0.5 + 0.99 * 2.0
    critic = [(1.0 + 2 * 0.5 - target) ** 2 + (0.5 - target) ** 2, 0.0]
    actor = [
        -math.exp(0.5 / 2) * log_probability(0.5, 0.5),
        -math.exp(-1.5 / 2) * log_probability(-0.5, 1.0),
    ]
    torch.testing.assert_close(info.critic.value[:, 0], torch.tensor(value))
    torch.testing.assert_close(loss.extra.value[:, 0], torch.tensor(value))
    torch.testing.assert_close(loss.extra.critic[:, 0], torch.tensor(critic))
    torch.testing.assert_close(loss.extra.actor.actor_loss[:, 0], torch.tensor(actor))
    torch.testing.assert_close(loss.loss, loss.extra.value + loss.extra.critic + loss.extra.actor.actor_loss)
    assert isinstance(info.critic, IqlCriticInfo)


@pytest.mark.parametrize("expectile", [0.5, 0.7, 0.9])
def test_the_value_loss_is_the_expectile_above_and_the_rest_below(one_weight: Any, expectile: float) -> None:
    algorithm = make(one_weight, expectile=expectile)
    one, zero = torch.ones(1), torch.zeros(1)
    assert algorithm._value_loss(one, zero).item() == pytest.approx(expectile)
    assert algorithm._value_loss(zero, one).item() == pytest.approx(1 - expectile)


def test_the_weight_of_an_action_is_limited_and_has_no_gradient(one_weight: Any) -> None:
    algorithm = make(one_weight, temperature=1.0)
    distribution, _ = algorithm._actor_network(torch.ones(2, 1))
    advantage = torch.tensor([10.0, 1e4], requires_grad=True)
    loss = algorithm._actor_loss(distribution, torch.full((2, 1), 0.5), advantage).loss
    torch.testing.assert_close(loss.detach(), torch.full((2,), -100 * log_probability(0.5, 0.5)))
    assert torch.autograd.grad(loss.sum(), [advantage], allow_unused=True) == (None,)


def test_each_loss_moves_only_its_network(one_weight: Any, sequence: Any, losses: Any) -> None:
    algorithm = make(one_weight)
    steps = sequence([[[1.0], [2.0]]], reward=[[0.0, 3.0]])
    _, loss = losses(algorithm, steps, IqlInfo(action=torch.full((1, 2, 1), 0.7)))
    networks = {
        "actor": algorithm._actor_network,
        "critic": algorithm._critic_networks,
        "value": algorithm._v_network,
        "target": algorithm._target_critic_networks,
    }
    parts = {"actor": loss.extra.actor.actor_loss, "critic": loss.extra.critic, "value": loss.extra.value}
    for part, tensor in parts.items():
        for name, network in networks.items():
            gradients = torch.autograd.grad(
                tensor.sum(), list(network.parameters()), allow_unused=True, retain_graph=True
            )
            assert all((gradient is not None) is (name == part) for gradient in gradients), (part, name)


def test_the_target_is_bootstrapped_at_a_time_limit_and_not_at_a_terminal(
    one_weight: Any, sequence: Any, losses: Any
) -> None:
    algorithm = make(one_weight, num_critic_replicas=1)
    action = IqlInfo(action=torch.zeros(2, 2, 1))
    steps = sequence(
        [[[1.0], [2.0]], [[1.0], [2.0]]],
        reward=[[0.0, 1.0], [0.0, 1.0]],
        discount=[[1.0, 0.0], [1.0, 1.0]],
        step_type=[[MID, LAST], [MID, LAST]],
    )
    _, loss = losses(algorithm, steps, action)
    torch.testing.assert_close(loss.extra.critic[0], torch.tensor([(1.0 - 1.0) ** 2, (1.0 - 1.0 - 0.99 * 2) ** 2]))


def test_targets_follow_the_critics_in_purely_offline_updates(one_weight: Any, sequence: Any, update: Any) -> None:
    algorithm = make(one_weight, target_update_tau=1.0, critic_optimizer=SGD(lr=0.01))
    start = [p.clone() for p in algorithm._critic_networks.parameters()]
    steps = sequence([[[1.0], [2.0]]], reward=[[0.0, 3.0]])
    for _ in range(3):
        update(algorithm, steps, IqlInfo(action=torch.full((1, 2, 1), 0.7)))
    critics = list(algorithm._critic_networks.parameters())
    targets = list(algorithm._target_critic_networks.parameters())
    assert not any(torch.equal(a, b) for a, b in zip(critics, start, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(critics, targets, strict=True))


class Constant(Network):
    """One number, whatever it sees."""

    def __init__(self, input_tensor_spec: Any, action_spec: Any = None) -> None:
        super().__init__(input_tensor_spec, name="constant")
        self.number = nn.Parameter(torch.zeros(()))

    def forward(self, inputs: Any, state: Any = ()) -> Any:
        return self.number.expand(inputs.shape[0]), state


class Echo(Network):
    """Q(s, a) = a."""

    def __init__(self, input_tensor_spec: Any) -> None:
        super().__init__(input_tensor_spec, name="echo")
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, inputs: Any, state: Any = ()) -> Any:
        return self.scale * inputs[1].squeeze(-1), state


@pytest.mark.parametrize(("expectile", "expected"), [(0.8, 0.667), (0.5, 0.5)])
def test_the_value_tends_to_the_expectile_of_uniform_values(
    one_weight: Any, update: Any, expectile: float, expected: float
) -> None:
    torch.manual_seed(0)
    algorithm = make(
        one_weight,
        critic_network_cls=Echo,
        v_network_cls=Constant,
        expectile=expectile,
        value_optimizer=SGD(lr=0.05),
    )
    ones = torch.ones(256, 2)
    steps = TimeStep(step_type=ones.int(), reward=ones, discount=ones, observation=torch.zeros(256, 2, 1))
    for _ in range(400):
        update(algorithm, steps, IqlInfo(action=torch.rand(256, 2, 1)))
    assert algorithm._v_network.number.item() == pytest.approx(expected, abs=0.02)


def test_targets_that_are_normalized_are_taken_in_after_the_update(one_weight: Any, sequence: Any, update: Any) -> None:
    algorithm = make(one_weight, critic_loss_ctor=partial(TDLoss, td_lambda=0.0, normalize_target=True))
    steps = sequence([[[1.0], [2.0]]], reward=[[0.0, 3.0]])
    update(algorithm, steps, IqlInfo(action=torch.full((1, 2, 1), 0.7)))
    state = algorithm._critic_losses[0].get_extra_state()
    assert state is not None
    assert state["target_normalizer"]
    with pytest.raises(ValueError, match="leave out normalize_target"):
        algorithm.after_update((), ())


def test_last_steps_do_not_count(one_weight: Any, sequence: Any, update: Any) -> None:
    def train(absurd: float) -> Any:
        algorithm = make(
            one_weight, actor_optimizer=SGD(lr=0.1), critic_optimizer=SGD(lr=0.1), value_optimizer=SGD(lr=0.1)
        )
        steps = sequence([[[1.0], [2.0]]], reward=[[0.0, 1.0]], step_type=[[MID, LAST]])
        update(algorithm, steps, IqlInfo(action=torch.tensor([[[0.3], [absurd]]])))
        return [parameter.clone() for parameter in algorithm.parameters()]

    assert all(torch.equal(a, b) for a, b in zip(train(0.0), train(2.0), strict=True))


def test_the_priority_is_the_root_of_the_mean_of_critic_and_value_losses(
    one_weight: Any, sequence: Any, losses: Any
) -> None:
    algorithm = make(one_weight, calculate_priority=True)
    steps = sequence(
        [[[1.0], [2.0], [1.0]]], reward=[[0.0, 1.0, 2.0]], step_type=[[FIRST, MID, LAST]], discount=[[1.0, 1.0, 0.0]]
    )
    _, loss = losses(algorithm, steps, IqlInfo(action=torch.full((1, 3, 1), 0.7)))
    sums = (loss.extra.critic + loss.extra.value)[:2]
    torch.testing.assert_close(loss.priority, sums.mean(0).sqrt())


@pytest.mark.parametrize("length", [2, 4])
def test_sequences_at_once_are_learnt_from_like_steps_by_themselves(length: int) -> None:
    torch.manual_seed(0)
    algorithm = IqlAlgorithm(OBSERVATION, ACTION, calculate_priority=True)
    ones = torch.ones(3, length)
    steps = TimeStep(
        step_type=torch.randint(0, 3, (3, length)).int(),
        reward=torch.randn(3, length),
        discount=ones,
        observation=torch.randn(3, length, 1),
    )
    rollout_info = IqlInfo(action=torch.rand(3, length, 1))
    at_once = algorithm.calc_loss(algorithm.train_sequences(steps, (), rollout_info))
    rows = [
        algorithm.train_step(
            nest.index_nest(steps, (slice(None), t)), IqlState(), IqlInfo(action=rollout_info.action[:, t])
        ).info
        for t in range(length)
    ]
    one_by_one = algorithm.calc_loss(stack_distributions(rows))
    torch.testing.assert_close(at_once.loss, one_by_one.loss)
    torch.testing.assert_close(at_once.priority, one_by_one.priority)


def test_one_transition_has_the_losses_of_the_first_step_only(one_weight: Any, sequence: Any) -> None:
    steps = sequence(
        [[[1.0], [2.0]], [[1.0], [3.0]]], reward=[[9.0, 0.5], [0.0, 1.0]], step_type=[[FIRST, MID], [LAST, FIRST]]
    )
    info = IqlInfo(action=torch.tensor([[[0.5], [-0.5]], [[0.1], [0.2]]]))
    both, first = make(one_weight), make(one_weight, one_transition=True)
    whole = both.calc_loss(both.train_sequences(steps, (), info))
    half = first.calc_loss(first.train_sequences(steps, (), info))
    torch.testing.assert_close(half.loss, torch.stack([whole.loss[0, 0], torch.zeros(())]))
    with pytest.raises(ValueError, match="one_transition needs mini_batch_length=2"):
        make(one_weight, one_transition=True, config=TrainerConfig("", mini_batch_length=3))


def test_a_vector_reward_has_a_value_for_each_dimension(losses: Any) -> None:
    torch.manual_seed(0)
    algorithm = IqlAlgorithm(
        OBSERVATION,
        ACTION,
        TensorSpec((2,)),
        reward_weights=[1.0, -2.0],
        num_critic_replicas=3,
        calculate_priority=True,
    )
    ones = torch.ones(4, 2)
    steps = TimeStep(step_type=ones.int(), reward=torch.randn(4, 2, 2), discount=ones, observation=torch.randn(4, 2, 1))
    action = torch.rand(4, 2, 1)
    info, loss = losses(algorithm, steps, IqlInfo(action=action))
    assert info.critic.critics.shape == (2, 4, 3, 2)
    assert info.critic.target_value.shape == (2, 4, 2)
    assert loss.loss.shape == (2, 4)
    assert loss.priority.shape == (4,)
    q_all, _ = algorithm._target_critic_networks((steps.observation[:, 0], action[:, 0]))
    q_all = q_all.reshape(4, 3, 2)
    q = torch.stack([q_all[..., 0].amin(1), q_all[..., 1].amax(1)], -1)  # The second dimension is a cost.
    value, _ = algorithm._v_network(steps.observation[:, 0])
    error = q - value
    high, low = error[:, 0], -error[:, 1]
    halves = [torch.where(e > 0, 0.8, 0.2) * e**2 for e in (high, low)]
    torch.testing.assert_close(info.critic.value[0], (halves[0] + halves[1]) / 2)
    weight = (error @ torch.tensor([1.0, -2.0])).exp().clamp(max=100)
    distribution, _ = algorithm._actor_network(steps.observation[:, 0])
    torch.testing.assert_close(info.actor.loss[0], -weight * distribution.log_prob(action[:, 0]))


def test_a_reward_that_is_a_vector_of_one_is_like_a_scalar(losses: Any) -> None:
    results = []
    for spec in (TensorSpec(()), TensorSpec((1,))):
        torch.manual_seed(0)
        algorithm = IqlAlgorithm(OBSERVATION, ACTION, spec)
        ones = torch.ones(1, 2)  # A batch of one keeps its dimension.
        reward = torch.tensor([[1.0, 2.0]]).reshape(1, 2, *spec.shape)
        steps = TimeStep(step_type=ones.int(), reward=reward, discount=ones, observation=torch.ones(1, 2, 1))
        results.append(losses(algorithm, steps, IqlInfo(action=torch.ones(1, 2, 1)))[1].loss)
    torch.testing.assert_close(results[0], results[1])


def test_recurrent_networks_keep_their_states_apart(sequence: Any, losses: Any) -> None:
    algorithm = IqlAlgorithm(
        OBSERVATION,
        ACTION,
        actor_network_cls=partial(ActorDistributionRNNNetwork, lstm_hidden_size=3),
        critic_network_cls=partial(CriticRNNNetwork, lstm_hidden_size=4),
        v_network_cls=partial(ValueRNNNetwork, lstm_hidden_size=5),
        config=TrainerConfig("", use_rollout_state=True, mini_batch_length=2),
    )
    steps = TimeStep(
        step_type=torch.ones(2, dtype=torch.int32),
        reward=torch.zeros(2),
        discount=torch.ones(2),
        observation=torch.randn(2, 1),
    )
    state = zero_state(algorithm.train_state_spec, 2)
    acted = algorithm.rollout_step(steps, state)
    learnt = algorithm.train_step(steps, state, IqlInfo(action=acted.output))
    for one, other in (
        (acted.state.action, learnt.state.action),
        (acted.state.critic, learnt.state.critic),
        (acted.state.value, learnt.state.value),
    ):
        torch.testing.assert_close(one, other)
    assert isinstance(algorithm.convert_train_state_to_predict_state(acted.state), IqlState)
    _, loss = losses(algorithm, sequence([[[1.0], [2.0]]], reward=[[0.0, 1.0]]), IqlInfo(action=torch.ones(1, 2, 1)))
    assert torch.isfinite(loss.loss).all()


def test_it_finds_the_better_of_two_actions_that_cloning_would_average(update: Any) -> None:
    """A bandit: half of the data does 1 and earns 1, half does -1 and earns -1."""
    torch.manual_seed(0)
    algorithm = IqlAlgorithm(
        OBSERVATION,
        ACTION,
        temperature=0.2,
        actor_optimizer=Adam(lr=3e-2),
        critic_optimizer=Adam(lr=3e-2),
        value_optimizer=Adam(lr=3e-2),
    )
    step_type = torch.tensor([[FIRST, LAST]], dtype=torch.int32).expand(64, 2)
    discount = torch.tensor([[1.0, 0.0]]).expand(64, 2)
    for _ in range(150):
        action = torch.where(torch.rand(64, 2, 1) < 0.5, 1.0, -1.0)
        reward = torch.stack([torch.zeros(64), action[:, 0, 0]], 1)
        steps = TimeStep(step_type=step_type, reward=reward, discount=discount, observation=torch.ones(64, 2, 1))
        update(algorithm, steps, IqlInfo(action=action))
    steps = TimeStep(step_type=torch.zeros(1, dtype=torch.int32), observation=torch.ones(1, 1))
    assert algorithm.predict_step(steps, zero_state(algorithm.predict_state_spec, 1)).output.item() > 0.7


def test_what_cannot_be_is_refused_when_it_is_made(one_weight: Any, sequence: Any, losses: Any) -> None:
    with pytest.raises(ValueError, match="IqlAlgorithm needs continuous actions, but the action is"):
        IqlAlgorithm(OBSERVATION, BoundedTensorSpec((), torch.int64, 0, 1))
    with pytest.raises(ValueError, match="needs an actor network that gives distributions"):
        make(one_weight, actor_network_cls=ActorNetwork)
    with pytest.raises(ValueError, match="mini_batch_length is 1"):
        make(one_weight, config=TrainerConfig("", mini_batch_length=1))
    with pytest.raises(ValueError, match="sequences of one step"):
        losses(make(one_weight), sequence([[[1.0]]]), IqlInfo(action=torch.ones(1, 1, 1)))
    for name, value in (
        ("expectile", 1.0),
        ("expectile", 0.0),
        ("temperature", 0.0),
        ("max_exp_advantage", -1.0),
        ("num_critic_replicas", 0),
    ):
        with pytest.raises(ValueError, match=f"{name} is {value}"):
            make(one_weight, **{name: value})
