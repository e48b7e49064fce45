import copy
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch

from rein import nest
from rein.algorithms.losses import PPOLoss
from rein.algorithms.on_policy import PPGAlgorithm, PPOAlgorithm
from rein.algorithms.on_policy.ppg import PPGAuxInfo, PPGAuxOptions
from rein.data_structures import BatchInfo, restart
from rein.distributions import Categorical, kl_divergence, map_params
from rein.framework import TrainerConfig
from rein.networks import EncodingNetwork, LSTMEncodingNetwork
from rein.networks.state import zero_state
from rein.optimizers import SGD, Adam
from rein.specs import BoundedTensorSpec, TensorSpec

SETTINGS = dict(unroll_length=6, mini_batch_length=3, mini_batch_size=4, num_updates_per_train_iter=2)
SMALL = partial(EncodingNetwork, fc_layer_params=(16,))


def ppg(make: Any, interval: int = 2, actions: str = "discrete", **arguments: Any) -> Any:
    arguments = {
        "encoding_network_ctor": SMALL,
        "policy_optimizer": Adam(lr=1e-2),
        "aux_optimizer": Adam(lr=1e-2),
        "aux_options": PPGAuxOptions(interval=interval, mini_batch_size=4, num_updates_per_train_iter=2),
        **arguments,
    }
    return make(PPGAlgorithm, actions, SETTINGS, **arguments)


def record_phases(alg: Any) -> list[Any]:
    """What the auxiliary phase is given, each time that it runs."""
    phases: list[Any] = []
    train_on = alg._aux_phase.train_on
    alg._aux_phase.train_on = lambda experience: (phases.append(experience), train_on(experience))
    return phases


def test_the_auxiliary_phase_runs_at_its_interval_on_all_data_since_the_last(make: Any) -> None:
    alg = ppg(make, interval=3)
    phases = record_phases(alg)
    rollouts = []
    unroll = alg.unroll
    alg.unroll = lambda length: rollouts.append(unroll(length)) or rollouts[-1]
    runs = []
    for _ in range(7):
        alg.train_iter()
        runs.append(len(phases))
    assert runs == [0, 0, 1, 1, 1, 2, 2]
    for number, phase in enumerate(phases):
        since = rollouts[3 * number : 3 * number + 3]
        expected = torch.cat([rollout.observation[:-1] for rollout in since])
        assert torch.equal(phase.observation, expected)
        assert phase.observation.shape[0] == 18
        assert torch.isfinite(phase.rollout_info.returns).all()


def test_the_returns_are_those_that_ppo_learnt_from(make: Any) -> None:
    alg = ppg(make, interval=1)
    phases = record_phases(alg)
    rollouts = []
    unroll = alg.unroll
    alg.unroll = lambda length: rollouts.append(unroll(length)) or rollouts[-1]
    alg.train_iter()
    info = rollouts[0].rollout_info
    returns, _ = alg._loss.returns_and_advantages(info, info.value.detach())
    assert torch.allclose(phases[0].rollout_info.returns, returns[:-1], atol=1e-6)


def test_preparing_data_and_losses_keep_nothing(make: Any) -> None:
    alg = ppg(make, interval=5)
    rollouts = []
    unroll = alg.unroll
    alg.unroll = lambda length: rollouts.append(unroll(length)) or rollouts[-1]
    alg.train_iter()
    assert len(alg._waiting) == 1
    data = map_params(lambda tensor: tensor.transpose(0, 1), rollouts[0])
    for _ in range(2):
        alg.preprocess_experience(data.time_step, data.rollout_info, BatchInfo())
    alg.after_train_iter(None, None)
    assert len(alg._waiting) == 1


def test_without_an_auxiliary_phase_it_is_ppo(make: Any) -> None:
    alg = ppg(make, aux_options=PPGAuxOptions(enabled=False))
    before = [p.clone() for p in alg._network.aux_head.parameters()]
    for _ in range(3):
        alg.train_iter()
    assert alg._waiting == []
    assert all(torch.equal(a, b) for a, b in zip(before, alg._network.aux_head.parameters(), strict=True))


def test_policy_phases_leave_the_auxiliary_head_alone(make: Any) -> None:
    alg = ppg(make, interval=2)
    before = [p.clone() for p in alg._network.aux_head.parameters()]
    alg.train_iter()
    assert all(torch.equal(a, b) for a, b in zip(before, alg._network.aux_head.parameters(), strict=True))
    alg.train_iter()
    assert not any(torch.equal(a, b) for a, b in zip(before, alg._network.aux_head.parameters(), strict=True))


def auxiliary_change(make: Any, beta: float) -> tuple[float, float, float]:
    """Divergence that one auxiliary phase causes, and the error of the auxiliary value before and after it."""
    alg = ppg(make, interval=100, beta_clone=beta, aux_optimizer=Adam(lr=3e-3))
    learning = alg._aux_phase.learning
    learning.settings = replace(learning.settings, num_updates_per_train_iter=30)
    for _ in range(4):
        alg.train_iter()
    data = nest.concat_nests(alg._waiting)
    observation = data.observation.flatten(0, 1)

    def look() -> tuple[Any, torch.Tensor]:
        with torch.no_grad():
            distribution, encoding, _ = alg._network.policy(observation, alg._network.state_spec)
            error = (alg._network.aux_value(encoding) - data.rollout_info.returns.flatten()).square().mean()
        return distribution, error

    old, error_before = look()
    alg._aux_phase.train_on(data)
    new, error_after = look()
    return kl_divergence(old, new).mean().item(), error_before.item(), error_after.item()


def test_the_auxiliary_phase_fits_values_and_keeps_the_policy(make: Any) -> None:
    free, before, after = auxiliary_change(make, beta=0.0)
    assert after < 0.8 * before
    kept, before, after = auxiliary_change(make, beta=10.0)
    assert after < 0.9 * before
    assert kept < 0.3 * free
    assert kept < 0.01


def test_the_auxiliary_loss_by_hand(make: Any) -> None:
    alg = ppg(make, beta_clone=2.0)
    half, skewed = torch.tensor([0.5, 0.5]), torch.tensor([0.25, 0.75])
    info = PPGAuxInfo(
        returns=torch.tensor([[3.0]]),
        old_distribution=Categorical(logits=half.log()[None, None]),
        action_distribution=Categorical(logits=skewed.log()[None, None]),
        value=torch.tensor([[1.0]]),
        aux_value=torch.tensor([[7.0]]),
    )
    got = alg._aux_phase.calc_loss(info)
    divergence = (half * (half / skewed).log()).sum().item()
    assert got.extra["aux"].item() == pytest.approx(8.0)
    assert got.extra["value"].item() == pytest.approx(2.0)
    assert got.extra["clone"].item() == pytest.approx(divergence, rel=1e-5)
    assert got.loss.item() == pytest.approx(8.0 + 2.0 + 2 * divergence, rel=1e-5)


def test_the_old_policy_is_that_at_the_start_of_the_phase(make: Any) -> None:
    alg = ppg(make, interval=1, aux_optimizer=SGD(lr=0.0))
    seen: list[Any] = []
    calc_loss = alg._aux_phase.calc_loss
    alg._aux_phase.calc_loss = lambda info: (seen.append(info), calc_loss(info))[1]
    alg.train_iter()
    for info in seen:
        assert kl_divergence(info.old_distribution, info.action_distribution).abs().max() < 1e-6
        assert not info.old_distribution.logits.requires_grad


def test_everything_that_waits_and_both_optimizers_are_saved(make: Any) -> None:
    """Saved between auxiliary phases, the next phase is the same."""
    alg = ppg(make, interval=3)
    for _ in range(4):
        alg.train_iter()
    state = copy.deepcopy(dict(alg.state_dict()))
    assert "_aux_phase._optimizers.0" in state
    assert "_optimizers.0" in state
    other = ppg(make, interval=3, seed=9)
    other.load_state_dict(state)
    assert len(other._waiting) == len(alg._waiting) == 1
    assert torch.equal(other._waiting[0].observation, alg._waiting[0].observation)
    phases, other_phases = record_phases(alg), record_phases(other)
    for each in (alg, other):
        torch.manual_seed(3)
        each._iterations += 1
        each.after_train_iter(None, None)
    assert len(phases) == len(other_phases) == 1
    for (name, a), (_, b) in zip(alg.named_parameters(), other.named_parameters(), strict=True):
        assert torch.equal(a, b), name


def test_it_needs_returns_beforehand(make: Any) -> None:
    with pytest.raises(ValueError, match="compute_advantages_internally"):
        ppg(make, loss_class=partial(PPOLoss, compute_advantages_internally=True))


@pytest.mark.parametrize("reward_dim", [1, 2])
def test_each_of_several_rewards_has_a_value(make: Any, reward_dim: int) -> None:
    alg = ppg(make, reward_dim=reward_dim)
    phases = record_phases(alg)
    for _ in range(2):
        alg.train_iter()
    assert phases[0].rollout_info.returns.shape[2:] == (reward_dim,)
    assert alg._network.value(torch.zeros(5, *alg.observation_spec.shape), alg._network.state_spec)[0].shape == (
        5,
        reward_dim,
    )
    loss = alg._aux_phase.calc_loss(
        PPGAuxInfo(
            returns=torch.tensor([[[3.0, 1.0]]]),
            old_distribution=Categorical(logits=torch.zeros(1, 1, 2)),
            action_distribution=Categorical(logits=torch.zeros(1, 1, 2)),
            value=torch.tensor([[[1.0, 1.0]]]),
            aux_value=torch.tensor([[[3.0, 3.0]]]),
        )
    )
    assert loss.extra["value"].tolist() == [[1.0]]
    assert loss.extra["aux"].tolist() == [[1.0]]


def test_rewards_of_higher_rank_are_refused() -> None:
    with pytest.raises(ValueError, match="scalars or vectors"):
        PPGAlgorithm(TensorSpec((3,)), BoundedTensorSpec((), torch.int64, 0, 2), TensorSpec((2, 2)))


def test_it_refuses_to_sample_from_a_replay_buffer(make: Any) -> None:
    settings = dict(whole_replay_buffer_training=False, mini_batch_size=2, mini_batch_length=2)
    with pytest.raises(ValueError, match="whole_replay_buffer_training"):
        make(PPGAlgorithm, "discrete", settings, encoding_network_ctor=SMALL, policy_optimizer=Adam(lr=1e-2))


@pytest.mark.parametrize("actions", ["discrete", "continuous", "mixed", "multi_discrete"])
def test_recurrent_encoders(make: Any, actions: str) -> None:
    alg = ppg(make, actions=actions, encoding_network_ctor=partial(LSTMEncodingNetwork, hidden_size=8))
    phases = record_phases(alg)
    for _ in range(4):
        alg.train_iter()
    assert len(phases) == 2


def test_evaluation_does_not_need_settings() -> None:
    action = BoundedTensorSpec((), torch.int64, 0, 2)
    alg = PPGAlgorithm(TensorSpec((3,)), action, epsilon_greedy=0.0)
    assert alg._aux_phase is None
    state = zero_state(alg.predict_state_spec, 1)
    assert alg.predict_step(restart(torch.zeros(1, 3), action), state).output.shape == (1,)


def test_ppo_keeps_nothing(make: Any) -> None:
    alg = make(PPOAlgorithm, "discrete", SETTINGS, loss_class=PPOLoss, optimizer=Adam(lr=1e-2))
    alg.train_iter()
    assert alg.replay_buffer is None
    assert isinstance(alg._config, TrainerConfig)
