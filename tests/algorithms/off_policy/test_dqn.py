"""DQN against numbers by hand: Q(s, a) is a table of two states and two actions."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from rein.algorithms.losses import OneStepTDLoss, OneStepTDQRLoss, TDLoss
from rein.algorithms.off_policy.dqn import DqnAlgorithm
from rein.algorithms.off_policy.sac_structures import SacInfo
from rein.data_structures import Experience, TimeStep
from rein.framework import TrainerConfig
from rein.networks import NestConcat, Network, QNetwork, QRNNNetwork
from rein.networks.state import zero_state
from rein.optimizers import SGD, Adam
from rein.runtime.schedules import LinearScheduler
from rein.specs import BoundedTensorSpec, TensorSpec
from rein.transforms import HindsightExperienceTransformer

OBSERVATION = TensorSpec((2,))
ACTION = BoundedTensorSpec((), torch.int64, 0, 1)
S0, S1 = [1.0, 0.0], [0.0, 1.0]
TABLE = ((1.0, 2.0), (4.0, 3.0))


class Table(Network):
    """A row of action values for each one-hot state."""

    def __init__(self, input_tensor_spec: Any, action_spec: Any, table: Any = TABLE) -> None:
        super().__init__(input_tensor_spec, name="table")
        self.table = nn.Parameter(torch.tensor(table))

    def forward(self, inputs: Tensor, state: Any = ()) -> tuple[Tensor, Any]:
        return inputs @ self.table, state


def make(**settings: Any) -> DqnAlgorithm:
    defaults = {"q_network_cls": Table, "q_optimizer": SGD(lr=0.1), "num_critic_replicas": 1, "one_transition": True}
    return DqnAlgorithm(OBSERVATION, ACTION, **{**defaults, **settings})


def table(networks: torch.nn.Module) -> Tensor:
    return next(networks.parameters())


@pytest.fixture
def batch(sequence: Any) -> tuple[TimeStep, SacInfo]:
    """One sequence of two steps: state 0, action 1, reward 1, state 1."""
    return sequence([[S0, S1]], [[0.0, 1.0]]), SacInfo(action=torch.tensor([[1, 0]]))


def act(algorithm: DqnAlgorithm, method: str, size: int) -> Tensor:
    step = TimeStep(step_type=torch.ones(size, dtype=torch.int32), observation=torch.tensor([S0]).repeat(size, 1))
    with torch.no_grad():
        return getattr(algorithm, method)(step, zero_state(algorithm.rollout_state_spec, size)).output


def test_one_update(batch: Any, update: Any) -> None:
    algorithm = make(target_update_tau=0.5)
    info, loss = update(algorithm, *batch)
    # y = 1 + 0.99 * 4, Q = 2: the error is 2.96.
    assert info.critic.target_critic[-1].item() == pytest.approx(4.0)
    assert loss.loss.item() == pytest.approx(2.96**2, rel=1e-5)
    expected = torch.tensor([[1.0, 2 + 0.1 * 2 * 2.96], [4.0, 3.0]])
    assert torch.allclose(table(algorithm._critic_networks), expected)
    assert table(algorithm._target_critic_networks)[0, 0, 1].item() == pytest.approx(2 + 0.05 * 2 * 2.96)


def test_without_one_transition_the_mean_is_over_all_steps(batch: Any, update: Any) -> None:
    assert update(make(one_transition=False), *batch)[1].loss.item() == pytest.approx(2.96**2 / 2, rel=1e-5)


@pytest.mark.parametrize(("by_target", "expected"), [(True, 9.0), (False, 7.0)])
def test_who_chooses_the_target_action(batch: Any, update: Any, by_target: bool, expected: float) -> None:
    algorithm = make(target_net_target_action=by_target)
    with torch.no_grad():
        # The critic prefers action 0 at state 1; its target holds 7 for it, and 9 for the other one.
        table(algorithm._target_critic_networks)[0, 1] = torch.tensor([7.0, 9.0])
    assert update(algorithm, *batch)[0].critic.target_critic[-1].item() == expected


def test_the_lowest_critic_counts_for_each_action(batch: Any, update: Any) -> None:
    algorithm = make(num_critic_replicas=2)
    with torch.no_grad():
        table(algorithm._target_critic_networks)[1, 1] = torch.tensor([0.0, 2.5])
    assert update(algorithm, *batch)[0].critic.target_critic[-1].item() == 2.5


def test_terminal_steps_do_not_bootstrap(sequence: Any, update: Any) -> None:
    batch = sequence([[S0, S1]], [[0.0, 1.0]], discount=[[1.0, 0.0]]), SacInfo(action=torch.tensor([[1, 0]]))
    assert update(make(), *batch)[1].loss.item() == pytest.approx(1.0)


def test_n_step_targets(sequence: Any, update: Any) -> None:
    algorithm = make(one_transition=False, critic_loss_ctor=partial(TDLoss, gamma=0.5, td_lambda=1.0))
    batch = sequence([[S0, S0, S1]], [[0.0, 1.0, 2.0]]), SacInfo(action=torch.tensor([[1, 0, 0]]))
    _, loss = update(algorithm, *batch)
    # Step 0: 1 + 0.5 * 2 + 0.25 * 4 - 2 = 1; step 1: 2 + 0.5 * 4 - 1 = 3.
    assert loss.loss.item() == pytest.approx((1 + 9) / 3)


def test_sequences_at_once_give_the_same_as_step_by_step(sequence: Any, update: Any) -> None:
    batch = sequence([[S0, S1, S0]], [[0.0, 1.0, 2.0]]), SacInfo(action=torch.tensor([[1, 0, 0]]))
    for by_target in (True, False):
        settings = {"one_transition": False, "target_net_target_action": by_target}
        at_once, by_steps = make(**settings), make(**settings)
        by_steps._config = TrainerConfig("unused", temporally_independent_train_step=False)
        losses = [update(algorithm, *batch)[1].loss.item() for algorithm in (at_once, by_steps)]
        assert losses[0] == pytest.approx(losses[1])


@pytest.mark.parametrize("by_target", [True, False])
def test_single_transitions_give_the_gradients_of_sequences_with_rows_of_zeros(sequence: Any, by_target: bool) -> None:
    observation, rewards = [[S0, S1], [S1, S0], [S0, S0]], [[0.0, 1.0], [5.0, 2.0], [1.0, 0.5]]
    time_step = sequence(observation, rewards, [[1.0, 0.0], [0.5, 1.0], [1.0, 1.0]], [[1, 2], [2, 0], [0, 1]])
    batch = Experience(time_step, rollout_info=SacInfo(action=torch.tensor([[1, 0], [0, 0], [0, 1]])))
    found = []
    for is_apart in (True, False):
        algorithm = make(target_net_target_action=by_target, num_critic_replicas=2)
        assert algorithm._learns_single_transitions
        algorithm._learns_single_transitions = is_apart
        found.append(algorithm.compute_gradients(batch))
    assert torch.equal(found[0].values[0], found[1].values[0])
    assert found[0].values[0].abs().sum() > 0
    assert torch.equal(found[0].loss_info.extra.critic, found[1].loss_info.extra.critic)


@pytest.mark.parametrize(
    "settings",
    [
        {"one_transition": False},
        {"calculate_priority": True},
        {"critic_loss_ctor": lambda **_: TDLoss(debug_summaries=True)},
    ],
)
def test_who_learns_from_whole_sequences(settings: dict[str, Any]) -> None:
    assert not make(**settings)._learns_single_transitions


def test_rollouts_explore_with_epsilon_and_evaluation_does_not(batch: Any) -> None:
    torch.manual_seed(0)
    algorithm = make(rollout_epsilon_greedy=0.4)
    assert (act(algorithm, "predict_step", 500) == 1).all()
    assert (act(algorithm, "rollout_step", 4000) == 0).float().mean().item() == pytest.approx(0.2, abs=0.03)
    assert (act(make(rollout_epsilon_greedy=0.0), "rollout_step", 500) == 1).all()
    assert (act(make(epsilon_greedy=1.0), "predict_step", 4000) == 0).float().mean().item() == pytest.approx(
        0.5, abs=0.05
    )


def test_nobody_asks_the_critics_where_all_actions_are_random(monkeypatch: Any) -> None:
    algorithm = make(rollout_epsilon_greedy=1.0)
    monkeypatch.setattr(algorithm, "_q", None)
    assert set(act(algorithm, "rollout_step", 100).tolist()) == {0, 1}
    with pytest.raises(TypeError):
        act(algorithm, "predict_step", 1)


def test_priorities_come_with_the_loss_if_asked_for(batch: Any, update: Any) -> None:
    assert update(make(), *batch)[1].priority == ()
    assert update(make(calculate_priority=True), *batch)[1].priority.tolist() == pytest.approx([2.96 / 2**0.5])


def test_targets_are_copied_after_their_period(batch: Any, update: Any) -> None:
    algorithm = make(target_update_tau=1.0, target_update_period=2)
    for expected in (False, True):
        update(algorithm, *batch)
        assert torch.equal(table(algorithm._critic_networks), table(algorithm._target_critic_networks)) is expected


def test_vector_rewards_choose_by_weights_and_learn_each_dimension(sequence: Any, update: Any) -> None:
    settings = {"reward_spec": TensorSpec((2,)), "reward_weights": [1.0, -1.0]}
    algorithm = make(**settings)
    with torch.no_grad():
        target = table(algorithm._target_critic_networks)  # [2 rewards, states, actions]
        target[:, 1] = torch.tensor([[4.0, 3.0], [9.0, 1.0]])
    batch = sequence([[S0, S1]], [[[0.0, 0.0], [1.0, 5.0]]]), SacInfo(action=torch.tensor([[1, 0]]))
    assert update(algorithm, *batch)[0].critic.target_critic[-1].tolist() == [[3.0, 1.0]]


def test_quantiles_choose_by_their_mean_and_have_their_loss(sequence: Any, update: Any) -> None:
    network = partial(QNetwork, fc_layer_params=(8,), num_quantiles=5)
    algorithm = make(q_network_cls=network)
    assert isinstance(algorithm._critic_losses[0], OneStepTDQRLoss)
    info, loss = update(algorithm, sequence([[S0, S1]], [[0.0, 1.0]]), SacInfo(action=torch.tensor([[1, 0]])))
    assert info.critic.critics.shape == (2, 1, 1, 5)
    assert info.critic.target_critic.shape == (2, 1, 5)
    assert torch.isfinite(loss.loss)
    q = torch.tensor([[[0.0, 0.0, 9.0], [4.0, 4.0, 4.0]]])
    assert algorithm._weighted(q).argmax(-1).item() == 1


@pytest.mark.parametrize("options", [{"dueling": True}, {"noisy": True}, {"dueling": True, "num_quantiles": 7}])
def test_options_of_the_network_learn_with_prioritized_replay(train_toy: Any, options: dict[str, Any]) -> None:
    ctor = partial(
        DqnAlgorithm,
        q_network_cls=partial(QNetwork, fc_layer_params=(16,), **options),
        q_optimizer=Adam(lr=1e-3),
        calculate_priority=True,
        target_net_target_action=False,
        rollout_epsilon_greedy=0.0 if "noisy" in options else 0.1,
    )
    settings = {"priority_replay": True, "episodes": 2, "mini_batch_length": 3}
    algorithm, _ = train_toy(ctor, "rein/Chain-v0", 40, **settings)
    assert algorithm.replay_buffer.prioritized_sampling


def test_recurrent_networks_learn_with_states_from_the_rollout(train_toy: Any) -> None:
    ctor = partial(DqnAlgorithm, q_network_cls=partial(QRNNNetwork, lstm_hidden_size=8), q_optimizer=Adam(lr=1e-3))
    settings = {"mini_batch_length": 4, "use_rollout_state": True, "episodes": 2, "initial_collect_steps": 40}
    train_toy(ctor, "rein/Chain-v0", 20, **settings)


def test_no_network_is_built_only_to_be_looked_at() -> None:
    built = []

    def q_network(**specs: Any) -> QNetwork:
        built.append(specs)
        return QNetwork(**specs)

    make(q_network_cls=q_network)
    assert len(built) == 1


class Optimist(DqnAlgorithm):
    """Believes the highest critic."""

    def _minimum(self, q: Tensor) -> Tensor:
        return q.amax(1)


class QuickOptimist(Optimist):
    """Knows what it does."""

    def quick_actor(self) -> Any:
        return "its own"


class Renamed(DqnAlgorithm):
    """Changes nothing about acting."""

    def calc_loss(self, info: SacInfo) -> Any:
        return super().calc_loss(info)


def test_a_subclass_that_picks_actions_otherwise_does_so_in_rollouts_too() -> None:
    arguments = (TensorSpec((2,)), ACTION)
    assert DqnAlgorithm(*arguments).quick_actor() is not None
    assert Renamed(*arguments).quick_actor() is not None
    assert Optimist(*arguments).quick_actor() is None
    assert QuickOptimist(*arguments).quick_actor() == "its own"


def test_exploration_that_is_changed_later_is_changed_in_quick_rollouts_too() -> None:
    algorithm = DqnAlgorithm(TensorSpec((2,)), ACTION, rollout_epsilon_greedy=0.0)
    actor = algorithm.quick_actor()
    assert actor is not None
    assert [noise.num_random for noise in actor.draw_noise(3, 5)] == [0, 0, 0]
    algorithm.explore_at(1.0)
    assert [noise.num_random for noise in actor.draw_noise(3, 5)] == [5, 5, 5]


def test_every_trained_parameter_has_an_optimizer() -> None:
    algorithm = make()
    handled = {id(p) for o in algorithm.optimizers() for g in o.param_groups for p in g["params"]}
    assert handled == {id(p) for p in algorithm._critic_networks.parameters()}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"action_spec": BoundedTensorSpec((2,), minimum=-1, maximum=1)}, "one discrete scalar action"),
        ({"action_spec": BoundedTensorSpec((2,), torch.int64, 0, 3)}, "merge several"),
        ({"action_spec": (ACTION, ACTION)}, "merge several"),
        ({"q_network_cls": partial(QNetwork, num_quantiles=3), "critic_loss_ctor": OneStepTDLoss}, "TDQRLoss"),
        ({"critic_loss_ctor": OneStepTDQRLoss}, "set num_quantiles"),
        ({"q_network_cls": partial(QNetwork, num_quantiles=3), "reward_spec": TensorSpec((2,))}, "scalar reward"),
        ({"config": TrainerConfig("unused", mini_batch_length=3), "one_transition": True}, "mini_batch_length=2"),
    ],
)
def test_bad_settings_are_refused_with_the_fix(settings: dict[str, Any], message: str) -> None:
    action_spec = settings.pop("action_spec", ACTION)
    with pytest.raises(ValueError, match=message):
        DqnAlgorithm(OBSERVATION, action_spec, **settings)


def test_it_learns_to_walk_a_chain(train_toy: Any) -> None:
    ctor = partial(
        DqnAlgorithm,
        q_network_cls=partial(QNetwork, fc_layer_params=(32,)),
        q_optimizer=Adam(lr=3e-3),
        num_critic_replicas=1,
        rollout_epsilon_greedy=LinearScheduler("percent", [(0.0, 1.0), (0.5, 0.1)]),
        one_transition=True,
    )
    _, mean_return = train_toy(ctor, "rein/Chain-v0", 500)
    assert mean_return == pytest.approx(0.96, abs=1e-3)


@pytest.mark.learning
def test_hindsight_flips_bits_that_plain_replay_does_not(train_toy: Any) -> None:
    ctor = partial(
        DqnAlgorithm,
        q_network_cls=partial(QNetwork, fc_layer_params=(256,), preprocessing_combiner=NestConcat()),
        q_optimizer=Adam(lr=1e-3),
        num_critic_replicas=1,
        target_net_target_action=False,
        rollout_epsilon_greedy=0.15,
        critic_loss_ctor=partial(OneStepTDLoss, gamma=0.98),
        one_transition=True,
    )
    hindsight = partial(HindsightExperienceTransformer, reward_fn=_bits_reward)
    settings = {"env_kwargs": {"num_bits": 10}, "mini_batch_size": 128, "num_envs": 8}
    _, with_hindsight = train_toy(ctor, "rein/BitFlip-v0", 3000, data_transformer_ctor=hindsight, **settings)
    _, plain = train_toy(ctor, "rein/BitFlip-v0", 3000, **settings)
    assert with_hindsight > -5.0
    assert plain < -8.0


def _bits_reward(achieved: Tensor, desired: Tensor) -> Tensor:
    return -(achieved != desired).any(-1).float()
