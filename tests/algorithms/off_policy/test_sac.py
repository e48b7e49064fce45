"""SAC against its equations written out, and every setting by what it changes."""

import copy
import math
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from rein import nest
from rein.algorithms.losses import OneStepTDLoss, TDLoss
from rein.algorithms.off_policy import SacAlgorithm
from rein.algorithms.off_policy.sac_structures import SacActionState, SacInfo
from rein.algorithms.regularization import UniformPriorActor
from rein.data_structures import BatchInfo, Experience, StepType, TimeStep
from rein.distributions import Categorical, calc_default_target_entropy
from rein.framework import Batch, TrainerConfig
from rein.framework.steps import steps_at_once
from rein.framework.updating.gradients import valid_masks
from rein.networks import (
    MASK_KEY,
    ActorDistributionNetwork,
    ActorDistributionRNNNetwork,
    CriticNetwork,
    CriticRNNNetwork,
    NestConcat,
    NormalProjectionNetwork,
    QNetwork,
    QRNNNetwork,
)
from rein.networks.state import zero_state
from rein.optimizers import SGD
from rein.specs import BoundedTensorSpec, TensorSpec

FIRST, MID, LAST = StepType.FIRST, StepType.MID, StepType.LAST
OBSERVATION = TensorSpec((3,))
CONTINUOUS = BoundedTensorSpec((2,), torch.float32, -2.0, 2.0)
DISCRETE = BoundedTensorSpec((), torch.int64, 0, 2)
MIXED = (DISCRETE, CONTINUOUS)
PROJECTION = partial(NormalProjectionNetwork, state_dependent_std=True, scale_distribution=True, squash_mean=False)
ACTOR = partial(ActorDistributionNetwork, fc_layer_params=(4,), continuous_projection_net_ctor=PROJECTION)
CRITIC = partial(CriticNetwork, joint_fc_layer_params=(4,))
Q = partial(QNetwork, fc_layer_params=(4,))
MIXED_Q = partial(Q, preprocessing_combiner=NestConcat())
NOISE = 0.3


def settings(**changes: Any) -> TrainerConfig:
    values: dict[str, Any] = {"mini_batch_length": 2, "mini_batch_size": 4, "whole_replay_buffer_training": False}
    return TrainerConfig(root_dir="", **{**values, **changes})


def make(action_spec: Any = CONTINUOUS, seed: int = 0, **changes: Any) -> SacAlgorithm:
    torch.manual_seed(seed)
    arguments: dict[str, Any] = {
        "actor_network_cls": ACTOR,
        "critic_network_cls": CRITIC,
        "q_network_cls": MIXED_Q if isinstance(action_spec, tuple | list) else Q,
        "actor_optimizer": SGD(lr=1.0),
        "critic_optimizer": SGD(lr=1.0),
        "alpha_optimizer": SGD(lr=1.0),
        "config": settings(),
    }
    algorithm = SacAlgorithm(OBSERVATION, action_spec, **{**arguments, **changes})
    with torch.no_grad():  # targets that differ from the critics, so that mixing them up is seen
        for parameter in algorithm._target_critic_networks.parameters() if algorithm._target_critic_networks else ():
            parameter.add_(0.1)
    return algorithm


def batch(
    action_spec: Any = CONTINUOUS, length: int = 2, size: int = 4, reward_shape: tuple[int, ...] = ()
) -> Experience:
    """Sequences [B, T]: the second begins with a LAST step, the third ends an episode, the fourth meets a time limit."""
    torch.manual_seed(7)
    step_type = torch.full((size, length), MID, dtype=torch.int32)
    discount = torch.ones(size, length)
    step_type[1, 0], step_type[1, 1] = LAST, FIRST
    step_type[2, -1], discount[2, -1] = LAST, 0.0
    step_type[3, -1] = LAST
    time_step = TimeStep(
        step_type=step_type,
        reward=torch.randn(size, length, *reward_shape),
        discount=discount,
        observation=torch.randn(size, length, 3),
        prev_action=nest.map_structure(lambda spec: spec.sample((size, length)), action_spec),
        env_id=torch.zeros(size, length, dtype=torch.int64),
    )
    action = nest.map_structure(lambda spec: spec.sample((size, length)), action_spec)
    return Experience(time_step=time_step, rollout_info=SacInfo(action=action), batch_info=BatchInfo())


@pytest.fixture(autouse=True)
def fixed_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same noise for every sample, and the best discrete action, so that losses can be written out."""
    monkeypatch.setattr(torch, "randn_like", lambda x, **_: torch.full_like(x, NOISE))
    monkeypatch.setattr(Categorical, "sample", lambda self, sample_shape=(): self.mode)


def info_by_steps(algorithm: SacAlgorithm, data: Experience) -> SacInfo:
    return steps_at_once(algorithm.train_step, algorithm.train_state_spec, data.time_step, (), data.rollout_info).info


def info_by_sequences(algorithm: SacAlgorithm, data: Experience) -> SacInfo:
    return algorithm.train_sequences(data.time_step, (), data.rollout_info)


def mean_loss(algorithm: SacAlgorithm, info: SacInfo, data: Experience) -> Tensor:
    loss = algorithm.calc_loss(info).loss
    if loss.ndim == 1:
        return loss.mean()
    return (loss * valid_masks(data.step_type.T)).mean()


def gradients(algorithm: SacAlgorithm, loss: Tensor) -> dict[str, Tensor]:
    algorithm.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in algorithm.named_parameters() if p.grad is not None}


# The equations, written out for one step at a time with autograd through the true objective.


def continuous_policy(algorithm: SacAlgorithm, observation: Tensor) -> tuple[Tensor, Tensor]:
    distribution, _ = algorithm._actor_network(observation)
    return distribution.rsample_with_log_prob()


def frozen(module: torch.nn.Module) -> Any:
    clone = copy.deepcopy(module)
    clone.requires_grad_(False)
    return clone


def continuous_losses(algorithm: SacAlgorithm, data: Experience, gamma: float = 0.99) -> tuple[Tensor, ...]:
    """Actor, critic and alpha losses [T, B]."""
    inputs, taken = data.time_step, data.rollout_info.action
    critics, targets = frozen(algorithm._critic_networks), frozen(algorithm._target_critic_networks)
    alpha = algorithm._log_alpha.exp()[0].detach()
    actor_rows, alpha_rows, log_pis, actions = [], [], [], []
    for t in range(inputs.step_type.shape[1]):
        action, log_pi = continuous_policy(algorithm, inputs.observation[:, t])
        value = critics((inputs.observation[:, t], action))[0].min(1).values
        actor_rows.append(alpha * log_pi - value)
        alpha_rows.append(algorithm._log_alpha[0] * (-log_pi - algorithm._target_entropy[0]).detach())
        log_pis.append(log_pi.detach())
        actions.append(action.detach())
    critic_rows = []
    for t in range(inputs.step_type.shape[1] - 1):
        next_value = targets((inputs.observation[:, t + 1], actions[t + 1]))[0].min(1).values
        target = inputs.reward[:, t + 1] + gamma * inputs.discount[:, t + 1] * (next_value - alpha * log_pis[t + 1])
        q = algorithm._critic_networks((inputs.observation[:, t], taken[:, t]))[0]
        critic_rows.append((q - target.unsqueeze(-1)).square().sum(1))
    critic_rows.append(torch.zeros_like(critic_rows[0]))
    return torch.stack(actor_rows), torch.stack(critic_rows), torch.stack(alpha_rows)


def test_a_continuous_update_is_the_gradient_of_the_three_losses() -> None:
    algorithm, data = make(initial_log_alpha=-0.7), batch()
    valid = valid_masks(data.step_type.T)
    expected = gradients(algorithm, (sum(continuous_losses(algorithm, data)) * valid).mean())
    before = {name: p.detach().clone() for name, p in algorithm.named_parameters()}
    algorithm.learning.update([Batch(data)])
    for name, parameter in algorithm.named_parameters():
        if not name.startswith("_target"):
            assert torch.allclose(parameter, before[name] - expected[name], atol=1e-5), name


@pytest.mark.parametrize("length", [2, 4])
def test_leaving_out_unused_values_changes_nothing(length: int) -> None:
    for action_spec in (CONTINUOUS, DISCRETE, MIXED):
        algorithm, data = make(action_spec), batch(action_spec, length)
        by_steps = gradients(algorithm, mean_loss(algorithm, info_by_steps(algorithm, data), data))
        by_sequences = gradients(algorithm, mean_loss(algorithm, info_by_sequences(algorithm, data), data))
        assert by_steps.keys() == by_sequences.keys()
        for name, gradient in by_steps.items():
            assert torch.allclose(gradient, by_sequences[name], atol=1e-6), (action_spec, name)


def test_one_transition_is_the_documented_loss_at_the_first_step() -> None:
    algorithm, data = make(one_transition=True), batch()
    valid = valid_masks(data.step_type.T)
    expected = gradients(algorithm, (sum(continuous_losses(algorithm, data)) * valid)[0].mean())
    for info in (info_by_sequences(algorithm, data), info_by_steps(algorithm, data)):
        found = gradients(algorithm, mean_loss(algorithm, info, data))
        for name, gradient in expected.items():
            assert torch.allclose(found[name], gradient, atol=1e-5), name


@pytest.mark.parametrize("action_spec", [CONTINUOUS, DISCRETE, MIXED], ids=["continuous", "discrete", "mixed"])
def test_one_transition_by_sequences_and_by_steps_agree(action_spec: Any) -> None:
    algorithm, data = make(action_spec, one_transition=True), batch(action_spec)
    by_steps = gradients(algorithm, mean_loss(algorithm, info_by_steps(algorithm, data), data))
    by_sequences = gradients(algorithm, mean_loss(algorithm, info_by_sequences(algorithm, data), data))
    for name, gradient in by_steps.items():
        assert torch.allclose(gradient, by_sequences[name], atol=1e-6), name


def test_one_transition_evaluates_critics_and_targets_once_each() -> None:
    algorithm, data = make(one_transition=True), batch()
    rows: dict[str, list[int]] = {"critic": [], "target": [], "actor": []}

    def count(name: str) -> Any:
        return lambda module, inputs: rows[name].append(nest.get_nest_batch_size(inputs[0]))

    algorithm._critic_networks.register_forward_pre_hook(count("critic"))
    algorithm._target_critic_networks.register_forward_pre_hook(count("target"))
    algorithm._actor_network.register_forward_pre_hook(count("actor"))
    info_by_sequences(algorithm, data)
    assert sorted(rows["critic"]) == [4, 4]  # at stored and at fresh actions of the first step
    assert rows["target"] == [4]
    assert rows["actor"] == [4, 4]


def test_the_actor_step_computes_no_gradient_for_the_critics() -> None:
    algorithm, data = make(), batch()
    info = info_by_sequences(algorithm, data)
    found = gradients(algorithm, info.actor.loss.sum())
    assert found
    assert all(name.startswith("_actor_network") for name in found)


def test_dqda_clipping_limits_the_gradient_of_the_action() -> None:
    def norm(**settings: Any) -> float:
        algorithm = make(**settings)
        torch.manual_seed(0)
        found = gradients(algorithm, info_by_steps(algorithm, batch()).actor.extra.actor_loss.sum())
        return float(torch.stack([one.norm() for one in found.values()]).norm())

    free = norm()
    # With a limit below all of them, every element of dQ/da has the size of the limit.
    assert 0 < norm(dqda_clipping=1e-6) < 0.1 * free
    assert norm(dqda_clipping=2e-6) == pytest.approx(2 * norm(dqda_clipping=1e-6), rel=0.05)
    assert norm(dqda_clipping=0.0) == free


# Discrete and mixed actions.


def test_discrete_values_by_hand() -> None:
    """One critic of constant values 1, 2, 3 (target: 10, 20, 30), alpha 1."""
    algorithm = make(DISCRETE, num_critic_replicas=1, q_network_cls=QNetwork, target_entropy=0.5)
    _constant_output(algorithm._critic_networks, [1.0, 2.0, 3.0])
    _constant_output(algorithm._target_critic_networks, [10.0, 20.0, 30.0])
    data = batch(DISCRETE)
    data = data._replace(rollout_info=SacInfo(action=torch.tensor([[0, 0], [1, 1], [2, 2], [1, 0]])))
    probs = torch.tensor([1.0, 2.0, 3.0]).softmax(0)
    info = info_by_steps(algorithm, data)
    assert info.critic.critics[0, :, 0].tolist() == [1.0, 2.0, 3.0, 2.0]
    expected_target = float((probs * torch.tensor([10.0, 20.0, 30.0])).sum())
    assert torch.allclose(info.critic.target_critic, torch.full((2, 4), expected_target))
    log_pi = math.log(float(probs[2]))  # the fixture picks the most likely action
    assert torch.allclose(info.log_pi, torch.full((2, 4, 1), log_pi))
    loss = algorithm._critic_loss(info)
    reward, discount = data.time_step.reward[:, 1], data.time_step.discount[:, 1]
    target = reward + 0.99 * discount * (expected_target - log_pi)
    q = torch.tensor([1.0, 2.0, 3.0, 2.0])
    expected = (q - target).square()
    valid = torch.tensor([0, 2, 3])  # the second sequence begins with a LAST step
    assert torch.allclose(loss[0][valid], expected[valid], atol=1e-4)
    assert info.actor.loss == ()
    assert torch.allclose(info.alpha, torch.zeros(2, 4))  # log alpha is 0


def _constant_output(network: torch.nn.Module, values: list[float]) -> None:
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            parameter.zero_()
            if name.endswith("bias") and parameter.shape[-1] == len(values):
                parameter.copy_(torch.tensor(values).expand_as(parameter))


def test_discrete_actions_follow_the_values_and_the_temperature() -> None:
    inputs = nest.map_structure(lambda x: x[:, 0], batch(DISCRETE).time_step)
    for log_alpha in (0.0, math.log(0.5)):
        algorithm = make(DISCRETE, initial_log_alpha=log_alpha, q_network_cls=QNetwork)
        _constant_output(algorithm._critic_networks, [1.0, 2.0, 3.0])
        step = algorithm.predict_step(inputs, algorithm_state(algorithm, 4))
        expected = (torch.tensor([1.0, 2.0, 3.0]) / math.exp(log_alpha)).softmax(0)
        assert torch.allclose(step.info.action_distribution.probs[0], expected, atol=1e-6)
        assert step.output.tolist() == [2, 2, 2, 2]


def algorithm_state(algorithm: SacAlgorithm, size: int) -> Any:
    return zero_state(algorithm.rollout_state_spec, size)


def test_mixed_actions_average_values_with_fixed_discrete_probabilities() -> None:
    algorithm, data = make(MIXED), batch(MIXED)
    with torch.no_grad():
        algorithm._log_alpha.copy_(torch.tensor([0.4, -0.3]))
    observation = data.time_step.observation.flatten(0, 1)
    critics = frozen(algorithm._critic_networks)
    action, log_pi = continuous_policy(algorithm, observation)
    value = critics((observation, action))[0].min(1).values
    alpha = algorithm._log_alpha.exp().detach()
    probs = (value.detach() / alpha[0]).softmax(-1)
    expected = gradients(algorithm, (alpha[1] * log_pi - (probs * value).sum(-1)).mean())
    found = gradients(algorithm, info_by_steps(algorithm, data).actor.loss.mean())
    assert expected.keys() == found.keys()
    for name, gradient in expected.items():
        assert torch.allclose(found[name], gradient, atol=1e-6), name


def test_mixed_critics_see_the_stored_actions_and_targets_the_fresh_ones() -> None:
    algorithm, data = make(MIXED), batch(MIXED)
    info = info_by_steps(algorithm, data)
    observation = data.time_step.observation[:, 0]
    discrete, continuous = (part[:, 0] for part in data.rollout_info.action)
    q = algorithm._critic_networks((observation, continuous))[0]
    assert torch.allclose(info.critic.critics[0], q[torch.arange(4), :, discrete])
    action, _ = continuous_policy(algorithm, observation)
    value = algorithm._critic_networks((observation, action))[0].min(1).values
    target = algorithm._target_critic_networks((observation, action))[0].min(1).values
    expected = (value.softmax(-1) * target).sum(-1)
    assert torch.allclose(info.critic.target_critic[0], expected, atol=1e-6)
    assert info.log_pi.shape == (2, 4, 2)


def test_mixed_actions_have_two_temperatures_with_their_own_targets() -> None:
    algorithm = make(MIXED, target_entropy=(0.25, -3.0))
    assert algorithm._log_alpha.shape == (2,)
    assert algorithm._target_entropy.tolist() == [0.25, -3.0]
    default = make(MIXED)
    expected = [calc_default_target_entropy(DISCRETE), calc_default_target_entropy(CONTINUOUS)]
    assert default._target_entropy.tolist() == pytest.approx(expected)


def test_a_list_of_mixed_actions_gives_a_list() -> None:
    algorithm = make([DISCRETE, CONTINUOUS])
    inputs = nest.map_structure(lambda x: x[:, 0], batch([DISCRETE, CONTINUOUS]).time_step)
    action = algorithm.rollout_step(inputs, algorithm_state(algorithm, 4)).output
    assert isinstance(action, list)
    assert [part.shape for part in action] == [(4,), (4, 2)]


# Vector rewards.


def test_vector_rewards_are_pessimistic_by_the_sign_of_their_weights() -> None:
    algorithm = make(reward_spec=TensorSpec((2,)), reward_weights=[2.0, -1.0])
    q = torch.tensor([[[1.0, 5.0], [3.0, 4.0]]])  # [B, n, D]
    assert algorithm._minimum(q).tolist() == [[1.0, 5.0]]
    assert algorithm._weighted(algorithm._minimum(q)).tolist() == [-3.0]
    summed = make(reward_spec=TensorSpec((2,)))
    assert summed._weighted(summed._minimum(q)).tolist() == [5.0]


def test_targets_of_vector_rewards_are_not_weighted_and_all_get_the_entropy() -> None:
    data = batch(reward_shape=(2,))
    algorithm = make(reward_spec=TensorSpec((2,)), reward_weights=[2.0, -1.0])
    info = info_by_steps(algorithm, data)
    assert info.critic.critics.shape == (2, 4, 2, 2)
    assert info.critic.target_critic.shape == (2, 4, 2)
    bonus = -info.log_pi[1, :, 0] * 0.99 * data.time_step.discount[:, 1]
    expected = []
    for i in range(2):
        target = data.time_step.reward[:, 1] + bonus.unsqueeze(-1)
        target = target + 0.99 * data.time_step.discount[:, 1:2] * info.critic.target_critic[1]
        expected.append((info.critic.critics[0, :, i] - target).square().mean(-1))
    found = algorithm._critic_loss(info)[0]
    valid = torch.tensor([0, 2, 3])
    assert torch.allclose(found[valid], (expected[0] + expected[1])[valid], atol=1e-5)


def test_discrete_vector_rewards_have_the_rewards_last() -> None:
    algorithm, data = make(DISCRETE, reward_spec=TensorSpec((2,))), batch(DISCRETE, reward_shape=(2,))
    q, _ = algorithm._q(algorithm._critic_networks, data.time_step.observation[:, 0], ())
    assert q.shape == (4, 2, 3, 2)
    raw = algorithm._critic_networks.networks(data.time_step.observation[:, 0])[0]
    assert torch.equal(q[:, 1, :, 0], raw[:, 2])  # replica 1, reward 0 is network 1 * 2 + 0
    assert info_by_sequences(algorithm, data).critic.target_critic.shape == (2, 4, 2)


# Settings.


def test_the_entropy_reward_enters_every_step_of_multi_step_targets() -> None:
    data = batch(length=3)
    ctor = partial(TDLoss, td_lambda=1.0, gamma=0.9)
    with_entropy = make(critic_loss_ctor=ctor, config=settings(mini_batch_length=3))
    info = info_by_steps(with_entropy, data)
    reward = with_entropy._with_entropy_reward(info).reward - info.reward
    assert torch.allclose(reward, -info.log_pi[..., 0] * 0.9 * info.discount, atol=1e-6)
    assert reward[2, 2] == 0.0  # a terminal step has no entropy reward
    shaped = info._replace(reward=info.reward + reward)
    target = with_entropy._critic_losses[0].compute_td_target(shaped, info.critic.target_critic)
    first = shaped.reward[1, 0] + 0.9 * (shaped.reward[2, 0] + 0.9 * info.critic.target_critic[2, 0])
    assert target[0, 0] == pytest.approx(first.item(), abs=1e-5)


def test_use_entropy_reward_off_leaves_rewards_alone() -> None:
    data = batch()
    losses = []
    for use in (True, False):
        algorithm = make(use_entropy_reward=use)
        info = info_by_steps(algorithm, data)
        losses.append(algorithm._critic_loss(info))
        plain = sum(
            loss(info, info.critic.critics[:, :, i], info.critic.target_critic).loss
            for i, loss in enumerate(algorithm._critic_losses)
        )
    assert torch.allclose(losses[1], plain)
    assert not torch.allclose(losses[0], losses[1])


def test_normalize_entropy_reward_gives_it_mean_zero() -> None:
    algorithm, data = make(normalize_entropy_reward=True), batch(size=4)
    info = info_by_steps(algorithm, data)._replace(discount=torch.ones(2, 4))
    reward = algorithm._with_entropy_reward(info).reward - info.reward
    assert reward.mean().item() == pytest.approx(0.0, abs=1e-4)
    assert torch.allclose(reward, 0.99 * (info.log_pi.mean() - info.log_pi[..., 0]), atol=1e-4)


def test_the_statistics_of_entropy_rewards_move_once_after_an_update() -> None:
    algorithm, data = make(normalize_entropy_reward=True), batch(size=4)
    info = info_by_steps(algorithm, data)
    before = copy.deepcopy(algorithm.state_dict())
    losses = [algorithm.calc_loss(info).loss for _ in range(2)]
    assert torch.equal(*losses)
    for key, value in algorithm.state_dict().items():
        assert not isinstance(value, Tensor) or torch.equal(value, before[key]), key
    algorithm.after_update(data.time_step, info)
    mean, std = algorithm._entropy_normalizer.mean(), algorithm._entropy_normalizer.std()
    assert torch.allclose(mean, info.log_pi.mean((0, 1)), rtol=1e-4)
    assert torch.allclose(std, info.log_pi.std((0, 1), unbiased=False), rtol=1e-4)
    with pytest.raises(ValueError, match="compile=True"):
        algorithm.after_update(data.time_step, ())


def test_calculate_priority_is_the_root_of_the_mean_critic_loss_of_valid_steps() -> None:
    algorithm, data = make(calculate_priority=True), batch(length=4)
    info = info_by_steps(algorithm, data)
    priority = algorithm.calc_loss(info).priority
    loss = algorithm._critic_loss(info)
    assert priority[0] == pytest.approx(loss[:, 0].mean().sqrt().item(), rel=1e-5)
    assert priority[3] == pytest.approx((loss[:3, 3].mean()).sqrt().item(), rel=1e-5)
    assert make().calc_loss(info).priority == ()


def test_num_critic_replicas_is_the_number_of_losses() -> None:
    algorithm, data = make(num_critic_replicas=3), batch()
    info = info_by_steps(algorithm, data)
    assert info.critic.critics.shape == (2, 4, 3)
    shaped = algorithm._with_entropy_reward(info)
    values = info.critic.critics.unbind(2)
    each = [
        loss(shaped, value, info.critic.target_critic).loss
        for loss, value in zip(algorithm._critic_losses, values, strict=True)
    ]
    assert torch.allclose(algorithm._critic_loss(info), sum(each))


def test_target_entropy_may_be_a_number_a_function_or_the_default() -> None:
    assert make(target_entropy=-1.5)._target_entropy.tolist() == [-1.5]
    assert make(target_entropy=lambda spec: -float(spec.numel))._target_entropy.tolist() == [-2.0]
    assert make()._target_entropy.item() == pytest.approx(calc_default_target_entropy(CONTINUOUS))
    low, high = (info_by_steps(make(target_entropy=t, initial_log_alpha=1.0), batch()).alpha for t in (-5.0, 5.0))
    assert torch.allclose(low - high, torch.full((2, 4), 10.0), atol=1e-4)


def test_the_target_entropy_of_a_mask_is_that_of_the_actions_it_leaves() -> None:
    observation_spec = {"x": OBSERVATION, MASK_KEY: TensorSpec((3,), torch.bool)}
    mask = torch.tensor([[1, 1, 1], [0, 1, 1], [1, 0, 0], [0, 0, 0]], dtype=torch.bool)  # the last allows everything
    sizes = [3, 2, 1, 3]
    inputs = batch(DISCRETE).time_step._replace(observation={"x": torch.randn(4, 3), MASK_KEY: mask})

    def wanted(action_spec: Any, **changes: Any) -> Tensor:
        torch.manual_seed(0)
        algorithm = SacAlgorithm(
            observation_spec, action_spec, actor_network_cls=ACTOR, q_network_cls=Q, config=settings(), **changes
        )
        return algorithm._wanted_entropy(algorithm._policy(inputs, inputs.observation, SacActionState()).distribution)

    default = [calc_default_target_entropy(BoundedTensorSpec((), torch.int64, 0, size - 1)) for size in sizes]
    assert wanted(DISCRETE)[:, 0].tolist() == pytest.approx(default)
    assert wanted(DISCRETE, target_entropy=lambda spec: spec.num_values)[:, 0].tolist() == sizes
    assert wanted(DISCRETE, target_entropy=0.3)[:, 0].tolist() == pytest.approx([0.3] * 4)
    continuous = calc_default_target_entropy(CONTINUOUS)
    assert wanted(MIXED)[:, 0].tolist() == pytest.approx(default)
    assert wanted(MIXED)[:, 1].tolist() == pytest.approx([continuous] * 4)


def test_a_prior_takes_the_place_of_the_entropy() -> None:
    algorithm, data = make(prior_actor_ctor=UniformPriorActor, target_kld_per_dim=2.5), batch()
    plain = info_by_steps(make(), data).log_pi
    assert torch.allclose(info_by_steps(algorithm, data).log_pi, plain + 2 * math.log(4.0), atol=1e-5)
    assert algorithm._target_entropy.tolist() == [-5.0]


def test_mixed_actions_with_a_prior_keep_their_parts_apart() -> None:
    algorithm, data = make(MIXED, prior_actor_ctor=UniformPriorActor), batch(MIXED)
    plain = info_by_steps(make(MIXED), data).log_pi
    shift = torch.tensor([math.log(3.0), 2 * math.log(4.0)])
    assert torch.allclose(info_by_steps(algorithm, data).log_pi, plain + shift, atol=1e-5)
    assert algorithm._target_entropy.tolist() == [-3.0, -6.0]


def test_alpha_starts_where_told_moves_to_the_target_and_is_capped() -> None:
    algorithm = make(initial_log_alpha=-1.0, target_entropy=100.0, max_log_alpha=-0.9)
    assert algorithm._alpha().item() == pytest.approx(math.exp(-1.0))
    algorithm.learning.update([Batch(batch())])
    assert algorithm._log_alpha.item() == pytest.approx(-0.9)
    free = make(initial_log_alpha=-1.0, target_entropy=100.0)
    free.learning.update([Batch(batch())])
    assert free._log_alpha.item() > -0.9


def test_targets_move_by_tau_every_period() -> None:
    algorithm = make(target_update_tau=0.25, target_update_period=2)
    source, target = (
        next(iter(net.parameters())) for net in (algorithm._critic_networks, algorithm._target_critic_networks)
    )
    before = target.detach().clone()
    algorithm.after_update((), ())
    assert torch.equal(target, before)
    algorithm.after_update((), ())
    assert torch.allclose(target, before + 0.25 * (source - before))


def test_target_networks_start_equal_and_are_in_no_optimizer() -> None:
    torch.manual_seed(0)
    algorithm = SacAlgorithm(OBSERVATION, CONTINUOUS, actor_network_cls=ACTOR, critic_network_cls=CRITIC)
    pairs = zip(algorithm._critic_networks.parameters(), algorithm._target_critic_networks.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    assert "_target" not in make().get_optimizer_info()


def test_each_optimizer_handles_its_part() -> None:
    for left_out, prefix in (("actor", "_actor_network"), ("critic", "_critic_networks"), ("alpha", "_log_alpha")):
        algorithm = make(**{f"{left_out}_optimizer": None})
        before = {name: p.detach().clone() for name, p in algorithm.named_parameters()}
        algorithm.learning.update([Batch(batch())])
        for name, parameter in algorithm.named_parameters():
            if not name.startswith("_target"):
                assert torch.equal(parameter, before[name]) == name.startswith(prefix), (left_out, name)


def test_reproduce_locomotion_masks_the_first_policy_loss_and_starts_at_random() -> None:
    algorithm, data = make(reproduce_locomotion=True), batch(length=3)
    actor, critic, alpha = continuous_losses(algorithm, data)
    valid = valid_masks(data.step_type.T)
    policy = (actor + alpha) * torch.tensor([[0.0], [1.0], [1.0]])
    expected = gradients(algorithm, ((policy + critic) * valid).mean())
    for info in (info_by_sequences(algorithm, data), info_by_steps(algorithm, data)):
        found = gradients(algorithm, mean_loss(algorithm, info, data))
        for name, gradient in expected.items():
            assert torch.allclose(found[name], gradient, atol=1e-5), name
    inputs = nest.map_structure(lambda x: x[:, 0], data.time_step)
    state = algorithm_state(algorithm, 4)
    first, second = (algorithm.rollout_step(inputs, state).output for _ in range(2))
    assert not torch.equal(first, second)  # the noise of the policy is fixed, so only uniform actions differ
    algorithm.after_update((), ())
    first, second = (algorithm.rollout_step(inputs, state).output for _ in range(2))
    assert torch.equal(first, second)


def test_epsilon_greedy_is_the_chance_of_a_sample_in_evaluation() -> None:
    inputs = nest.map_structure(lambda x: x[:, 0], batch().time_step)
    greedy, sampling = make(epsilon_greedy=0.0), make(epsilon_greedy=1.0)
    distribution, _ = greedy._actor_network(inputs.observation)
    state = algorithm_state(greedy, 4)
    assert torch.equal(greedy.predict_step(inputs, state).output, distribution.mode)
    assert not torch.allclose(sampling.predict_step(inputs, state).output, distribution.mode)
    assert make(config=settings(epsilon_greedy=0.4))._epsilon_greedy == 0.4


def test_recorded_returns_reach_the_critic_loss() -> None:
    algorithm, data = make(), batch()
    returns = torch.arange(8.0).reshape(4, 2)
    _, rollout_info = algorithm.preprocess_experience(
        data.time_step, data.rollout_info, BatchInfo(discounted_return=returns)
    )
    info = info_by_sequences(algorithm, data._replace(rollout_info=rollout_info))
    assert torch.equal(info.discounted_return, returns.T)


# Recurrent networks.

RNN_ACTOR = partial(ActorDistributionRNNNetwork, lstm_hidden_size=4, continuous_projection_net_ctor=PROJECTION)
RNN_CRITIC = partial(CriticRNNNetwork, lstm_hidden_size=4)
RNN_Q = partial(QRNNNetwork, lstm_hidden_size=4)


@pytest.mark.parametrize("action_spec", [CONTINUOUS, DISCRETE, MIXED], ids=["continuous", "discrete", "mixed"])
def test_recurrent_networks_train_in_order_and_rollouts_keep_all_states(action_spec: Any) -> None:
    q = partial(RNN_Q, preprocessing_combiner=NestConcat()) if isinstance(action_spec, tuple) else RNN_Q
    algorithm = make(
        action_spec,
        actor_network_cls=RNN_ACTOR,
        critic_network_cls=RNN_CRITIC,
        q_network_cls=q,
        config=settings(use_rollout_state=True, mini_batch_length=4),
    )
    data = batch(action_spec, length=4)
    assert algorithm.need_full_rollout_state()
    state = algorithm_state(algorithm, 4)
    inputs = nest.map_structure(lambda x: x[:, 0], data.time_step)
    new_state = algorithm.rollout_step(inputs, state).state
    nest.assert_same_structure(new_state, algorithm.train_state_spec)
    assert all(bool((leaf != 0).any()) for leaf in nest.flatten(new_state))
    stored = nest.map_structure(lambda x: x.unsqueeze(1).expand(-1, 4, *x.shape[1:]), new_state)
    assert algorithm.learning.update([Batch(data._replace(state=stored))]) == 16
    predicted = algorithm.predict_step(inputs, zero_state(algorithm.predict_state_spec, 4))
    nest.assert_same_structure(predicted.state, algorithm.predict_state_spec)


# Acting only.


def test_without_critics_it_acts_like_the_trained_one_and_ignores_their_parameters() -> None:
    trained = make()
    deployed = make(seed=1, critic_network_cls=None, config=None)
    keys = deployed.load_state_dict(trained.state_dict())
    assert keys.unexpected_keys == []
    assert keys.missing_keys == []
    inputs = nest.map_structure(lambda x: x[:, 0], batch().time_step)
    state = algorithm_state(deployed, 4)
    action = deployed.predict_step(inputs, state).output
    assert torch.equal(action, trained.predict_step(inputs, algorithm_state(trained, 4)).output)
    assert deployed._critic_networks is None
    assert deployed._target_critic_networks is None
    with pytest.raises(ValueError, match="critic_network_cls=None"):
        info_by_steps(deployed, batch())


# Bad input.


@pytest.mark.parametrize(
    ("action_spec", "message"),
    [
        ((CONTINUOUS, DISCRETE), "in this order"),
        ((DISCRETE, DISCRETE), "only one"),
        (BoundedTensorSpec((2,), torch.int64, 0, 3), "only one"),
        ({"a": DISCRETE, "b": CONTINUOUS}, "in this order"),
        ((DISCRETE, CONTINUOUS, CONTINUOUS), "in this order"),
        (BoundedTensorSpec((), torch.int64, 1, 3), "start at 0"),
        ((DISCRETE,), "give the spec itself"),
        (TensorSpec((2,)), "BoundedTensorSpec"),
        ((), "empty"),
    ],
)
def test_action_specs_that_it_cannot_handle(action_spec: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(action_spec)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"initial_log_alpha": float("nan")}, "initial_log_alpha"),
        ({"initial_log_alpha": 1.0, "max_log_alpha": 0.0}, "max_log_alpha"),
        ({"target_update_tau": 0.0}, "target_update_tau"),
        ({"num_critic_replicas": 0}, "num_critic_replicas"),
        ({"dqda_clipping": -1.0}, "dqda_clipping"),
        ({"target_kld_per_dim": -1.0}, "target_kld_per_dim"),
        ({"target_entropy": (1.0, 2.0)}, "target_entropy"),
        ({"reward_spec": TensorSpec((2, 2))}, "scalar or a vector"),
        ({"reward_weights": [1.0, 2.0]}, "reward_weights"),
        ({"one_transition": True, "reproduce_locomotion": True}, "choose one"),
        ({"one_transition": True, "config": settings(mini_batch_length=3)}, "mini_batch_length=2"),
        ({"one_transition": True, "actor_network_cls": RNN_ACTOR}, "leave out one_transition"),
        ({"config": settings(mini_batch_length=1)}, "at least 2 steps"),
        ({"epsilon_greedy": 1.5}, "epsilon_greedy"),
    ],
)
def test_settings_that_make_no_sense(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**changes)


def test_mixed_actions_have_no_vector_rewards() -> None:
    with pytest.raises(ValueError, match="not with mixed ones"):
        make(MIXED, reward_spec=TensorSpec((2,)))


def test_a_discrete_action_needs_a_network_for_its_values() -> None:
    for action_spec in (DISCRETE, MIXED):
        with pytest.raises(ValueError, match="give one, such as QNetwork"):
            make(action_spec, q_network_cls=None)
    assert make(q_network_cls=None)._critic_networks is not None


def test_one_transition_refuses_longer_sequences() -> None:
    algorithm = make(one_transition=True, config=None)
    with pytest.raises(ValueError, match="mini_batch_length=2"):
        info_by_sequences(algorithm, batch(length=3))


def test_a_nest_of_continuous_actions_adds_up() -> None:
    spec = {"a": CONTINUOUS, "b": BoundedTensorSpec((1,), torch.float32, -1.0, 1.0)}
    critic = partial(CRITIC, action_preprocessing_combiner=NestConcat())
    algorithm, data = make(spec, critic_network_cls=critic), batch(spec)
    distribution, _ = algorithm._actor_network(data.time_step.observation[:, 0])
    parts = [part.rsample_with_log_prob()[1] for part in nest.flatten(distribution)]
    assert torch.allclose(info_by_steps(algorithm, data).log_pi[0, :, 0], parts[0] + parts[1])
    assert algorithm.learning.update([Batch(data)]) == 8


def test_default_critic_loss_is_one_step() -> None:
    assert all(isinstance(loss, OneStepTDLoss) for loss in make()._critic_losses)
