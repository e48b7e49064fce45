"""TAAC: courses by hand, the compare-through return, and each loss against its equation."""

import math
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from rein import nest
from rein.algorithms.losses import OneStepTDLoss
from rein.algorithms.off_policy import TaacAlgorithm, TaacLAlgorithm, TaacQAlgorithm, TAACTDLoss
from rein.algorithms.off_policy.taac_structures import TaacInfo, TaacState
from rein.algorithms.off_policy.taac_trajectories import LinearTrajectory, QuadraticTrajectory, Tau
from rein.data_structures import Experience, StepType, TimeStep, restart
from rein.distributions import Categorical, calc_default_target_entropy
from rein.framework import Batch, TrainerConfig
from rein.framework.steps import steps_at_once
from rein.framework.updating.gradients import valid_masks
from rein.networks import (
    ActorDistributionNetwork,
    ActorDistributionRNNNetwork,
    CriticNetwork,
    NestConcat,
    NormalProjectionNetwork,
)
from rein.networks.state import zero_state
from rein.ops import element_wise_huber_loss
from rein.optimizers import SGD
from rein.specs import BoundedTensorSpec, TensorSpec

MID, LAST, FIRST = StepType.MID, StepType.LAST, StepType.FIRST
OBSERVATION = TensorSpec((3,))
ACTION = BoundedTensorSpec((2,), torch.float32, -1.0, 1.0)
PROJECTION = partial(NormalProjectionNetwork, state_dependent_std=True, scale_distribution=True)
ACTOR = partial(ActorDistributionNetwork, fc_layer_params=(4,), continuous_projection_net_ctor=PROJECTION)
ALGORITHMS = [TaacAlgorithm, TaacLAlgorithm, TaacQAlgorithm]


def make(
    cls: Any = TaacAlgorithm, action_spec: Any = ACTION, observation_spec: Any = OBSERVATION, **changes: Any
) -> Any:
    torch.manual_seed(0)
    arguments: dict[str, Any] = {
        "actor_network_cls": ACTOR,
        "critic_network_cls": partial(CriticNetwork, joint_fc_layer_params=(4,)),
        "actor_optimizer": SGD(lr=0.1),
        "critic_optimizer": SGD(lr=0.1),
        "alpha_optimizer": SGD(lr=0.1),
        "config": TrainerConfig(root_dir="", mini_batch_length=3, whole_replay_buffer_training=False),
    }
    return cls(observation_spec=observation_spec, action_spec=action_spec, **{**arguments, **changes})


def random_tau(order: int, *batch: int) -> Tau:
    return Tau(*[2.0 * torch.rand(*batch, 2) - 1.0 for _ in range(order + 1)])


def batch(algorithm: Any, length: int = 3, size: int = 4, reward_shape: tuple[int, ...] = ()) -> Experience:
    torch.manual_seed(1)
    step_type = torch.full((size, length), MID, dtype=torch.int32)
    step_type[1, 1], step_type[1, 2] = LAST, FIRST
    order = algorithm._trajectory.order
    info = TaacInfo(
        tau=random_tau(order, size, length),
        prev_tau=random_tau(order, size, length),
        rollout_b=torch.randint(0, 2, (size, length)),
        repeats=torch.zeros(size, length, dtype=torch.int64),
    )
    time_step = TimeStep(
        step_type=step_type,
        reward=torch.randn(size, length, *reward_shape),
        discount=torch.ones(size, length),
        observation=torch.randn(size, length, 3),
        prev_action=torch.zeros(size, length, 2),
        env_id=torch.zeros(size, length, dtype=torch.int64),
    )
    return Experience(time_step=time_step, rollout_info=info)


# Courses.


def test_a_linear_course_goes_on_at_its_speed_within_bounds() -> None:
    course = LinearTrajectory(inverse_mode=True)
    tau = course.go_on(Tau(torch.tensor([[0.0, 0.5]]), torch.tensor([[0.2, 0.4]])))
    assert torch.allclose(tau.a, torch.tensor([[0.4, 1.0]]))
    assert torch.allclose(tau.v, torch.tensor([[0.2, 0.4]]))


def test_a_linear_course_begins_by_action_or_by_speed() -> None:
    before, sample = Tau(torch.tensor([[0.2]]), torch.tensor([[-0.5]])), torch.tensor([[0.6]])
    by_action = LinearTrajectory(inverse_mode=True).begin(sample, before)
    assert by_action.a.item() == pytest.approx(0.6)
    assert by_action.v.item() == pytest.approx(0.2)
    by_speed = LinearTrajectory(inverse_mode=False).begin(sample, before)
    assert by_speed.v.item() == pytest.approx(0.6)
    assert by_speed.a.item() == 1.0  # 0.2 + 2 * 0.6, clipped


def test_a_quadratic_course_accelerates() -> None:
    course = QuadraticTrajectory(inverse_mode=True)
    tau = course.go_on(Tau(torch.tensor([[0.0]]), torch.tensor([[0.1]]), torch.tensor([[0.05]])))
    assert tau.v.item() == pytest.approx(0.2)
    assert tau.a.item() == pytest.approx(0.4)
    begun = course.begin(torch.tensor([[0.4]]), Tau(*[torch.zeros(1, 1)] * 3))
    assert [part.item() for part in begun] == pytest.approx([0.4, 0.2, 0.1])
    by_rate = QuadraticTrajectory(inverse_mode=False).begin(torch.tensor([[0.1]]), Tau(*[torch.zeros(1, 1)] * 3))
    assert [part.item() for part in by_rate] == pytest.approx([0.4, 0.2, 0.1])


def test_courses_that_begin_inversely_arrive_where_the_actor_wants() -> None:
    before, sample = random_tau(2, 5), 2.0 * torch.rand(5, 2) - 1.0
    for course in (LinearTrajectory(True), QuadraticTrajectory(True)):
        begun = course.begin(sample, before)
        at_rest = Tau(before.a, begun.v) if begun.u == () else Tau(before.a, torch.zeros_like(before.a), begun.u)
        assert torch.allclose(course.go_on(at_rest).a, sample, atol=1e-6)


# The compare-through return.


def loss_info(rollout_b: list[int], b: list[int], step_type: list[int] | None = None, discount: Any = None) -> Any:
    column = partial(torch.tensor)
    return SimpleNamespace(
        reward=column([[0.0], [1.0], [2.0], [4.0]]),
        discount=column([[d] for d in (discount or [1.0] * 4)]),
        step_type=column([[s] for s in (step_type or [MID] * 4)], dtype=torch.int32),
        rollout_b=column([[x] for x in rollout_b]),
        b=column([[x] for x in b]),
    )


VALUES = torch.tensor([[10.0], [20.0], [30.0], [40.0]])


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        # Nobody switches: bootstrap at the end of the sequence.
        (loss_info([0] * 4, [0] * 4), [1 + 0.5 * (2 + 0.5 * (4 + 0.5 * 40)), 2 + 0.5 * (4 + 0.5 * 40), 4 + 0.5 * 40]),
        # The rollout switches at step 2.
        (loss_info([0, 0, 1, 0], [0] * 4), [1 + 0.5 * (2 + 0.5 * 30), 2 + 0.5 * 30, 4 + 0.5 * 40]),
        # The current policy switches at step 1; what happens at step 0 does not matter for it.
        (loss_info([1, 0, 0, 0], [1, 1, 0, 0]), [1 + 0.5 * 20, 2 + 0.5 * (4 + 0.5 * 40), 4 + 0.5 * 40]),
        # The episode terminates at step 2, where the next one begins; step 2 itself is masked.
        (loss_info([0] * 4, [0] * 4, [MID, MID, LAST, FIRST], [1, 1, 0, 1]), [1 + 0.5 * 2, 2.0, 30.0]),
        # A time limit at step 2 bootstraps there.
        (loss_info([0] * 4, [0] * 4, [MID, MID, LAST, FIRST]), [1 + 0.5 * (2 + 0.5 * 30), 2 + 0.5 * 30, 30.0]),
    ],
)
def test_targets_bootstrap_at_the_first_switch(info: Any, expected: list[float]) -> None:
    target = TAACTDLoss(gamma=0.5).compute_td_target(info, VALUES)
    assert target[:, 0].tolist() == pytest.approx(expected)


def test_the_loss_compares_values_with_targets_and_skips_the_last_step() -> None:
    info = loss_info([1] * 4, [1] * 4)
    value = torch.tensor([[1.0], [2.0], [3.0], [4.0]], requires_grad=True)
    loss = TAACTDLoss(gamma=0.5)(info, value, VALUES)
    assert loss.loss[:, 0].tolist() == [(11 - 1) ** 2, (17 - 2) ** 2, (24 - 3) ** 2, 0.0]
    assert torch.equal(loss.loss, loss.extra)
    huber = TAACTDLoss(gamma=0.5, td_error_loss_fn=element_wise_huber_loss)(info, value, VALUES)
    assert huber.loss[0, 0].item() == pytest.approx(10 - 0.5)


def test_vector_rewards_may_have_their_own_discounts() -> None:
    info = loss_info([1] * 4, [1] * 4)
    info.reward = info.reward.unsqueeze(-1).expand(-1, -1, 2)
    loss = TAACTDLoss(gamma=[0.5, 0.0])
    target = loss.compute_td_target(info, VALUES.unsqueeze(-1).expand(-1, -1, 2))
    assert target[0, 0].tolist() == [11.0, 1.0]
    assert loss.gamma.tolist() == [0.5, 0.0]
    assert loss(info, torch.zeros(4, 1, 2), VALUES.unsqueeze(-1).expand(-1, -1, 2)).loss.shape == (4, 1)


# The policy.


def test_the_switch_is_a_softmax_of_the_two_values() -> None:
    algorithm = make(initial_alpha=0.5)
    values = torch.tensor([[1.0, 2.0], [3.0, -4.0]])
    assert torch.allclose(algorithm._switch(values).probs, (values / 0.5).softmax(-1), atol=1e-6)
    clipped = make(initial_alpha=0.5, b1_advantage_clipping=(-1.0, 0.5))._switch(values)
    expected = (torch.tensor([[0.0, 0.5], [0.0, -1.0]]) / 0.5).softmax(-1)
    assert torch.allclose(clipped.probs, expected, atol=1e-6)


def always(monkeypatch: pytest.MonkeyPatch, b: int) -> None:
    monkeypatch.setattr(Categorical, "sample", lambda self, shape=(): torch.full(self.batch_shape, b))


@pytest.mark.parametrize("cls", ALGORITHMS)
def test_the_rollout_repeats_or_begins_as_the_switch_says(cls: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    algorithm = make(cls)
    inputs = restart(torch.randn(4, 3), ACTION)
    state = TaacState(random_tau(algorithm._trajectory.order, 4), torch.tensor([0, 1, 2, 3]))
    always(monkeypatch, 0)
    repeated = algorithm.rollout_step(inputs, state)
    assert torch.allclose(repeated.output, algorithm._trajectory.go_on(state.tau).a)
    assert repeated.state.repeats.tolist() == [1, 2, 3, 4]
    always(monkeypatch, 1)
    begun = algorithm.rollout_step(inputs, state)
    assert not torch.allclose(begun.output, repeated.output)
    assert begun.state.repeats.tolist() == [0, 0, 0, 0]
    assert begun.info.rollout_b.tolist() == [1, 1, 1, 1]
    assert torch.equal(begun.info.prev_tau.a, state.tau.a)
    nest.assert_same_structure(begun.state, algorithm.rollout_state_spec)


def test_max_repeat_steps_forces_a_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch, 0)
    algorithm = make(max_repeat_steps=2)
    state = TaacState(random_tau(0, 4), torch.tensor([0, 1, 2, 3]))
    step = algorithm.rollout_step(restart(torch.randn(4, 3), ACTION), state)
    assert step.info.rollout_b.tolist() == [0, 0, 1, 1]
    assert step.state.repeats.tolist() == [1, 2, 0, 0]
    data = batch(algorithm)
    assert algorithm.train_sequences(data.time_step, (), data.rollout_info).b.max() == 0  # not in training


def test_evaluation_takes_the_modes_of_both_stages() -> None:
    algorithm = make(epsilon_greedy=0.0)
    inputs = restart(torch.randn(4, 3), ACTION)
    state = TaacState(random_tau(0, 4), torch.zeros(4, dtype=torch.int64))
    first, second = (algorithm.predict_step(inputs, state).output for _ in range(2))
    assert torch.equal(first, second)
    mode = algorithm._actor_network((inputs.observation, state.tau.a))[0].mode
    switches = algorithm._value(inputs.observation, Tau(mode)) > algorithm._value(inputs.observation, state.tau)
    assert torch.allclose(first, torch.where(switches.unsqueeze(-1), mode, state.tau.a))
    assert not torch.equal(first, make(epsilon_greedy=1.0).predict_step(inputs, state).output)


def test_first_courses_are_zero_or_random() -> None:
    inputs = restart(torch.randn(4, 3), ACTION)
    state = zero_state(make().rollout_state_spec, 4)
    assert make().rollout_step(inputs, state).info.prev_tau.a.abs().max() == 0
    randomized = make(randomize_first_state_tau=True)
    assert randomized.rollout_step(inputs, state).info.prev_tau.a.abs().min() > 0
    later = inputs._replace(step_type=torch.full((4,), MID, dtype=torch.int32))
    assert randomized.rollout_step(later, state).info.prev_tau.a.abs().max() == 0


def test_actions_are_stretched_onto_their_bounds() -> None:
    wide = BoundedTensorSpec((2,), torch.float32, [0.0, -2.0], [4.0, 2.0])
    algorithm = make(action_spec=wide, max_repeat_steps=0)
    step = algorithm.rollout_step(restart(torch.randn(50, 3), wide), zero_state(algorithm.rollout_state_spec, 50))
    assert torch.allclose(step.output, torch.tensor([2.0, 0.0]) + 2.0 * step.state.tau.a)
    assert step.output[:, 0].min() >= 0.0


# Learning.


@pytest.mark.parametrize("cls", ALGORITHMS)
def test_the_actor_climbs_the_value_scaled_by_the_chance_to_switch(cls: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "randn_like", lambda x, **_: torch.full_like(x, 0.3))
    algorithm = make(cls, initial_alpha=0.7)
    data = batch(algorithm)
    info = steps_at_once(algorithm.train_step, algorithm.train_state_spec, data.time_step, (), data.rollout_info).info
    info.actor.loss.sum().backward()
    found = {name: p.grad.clone() for name, p in algorithm.named_parameters() if p.grad is not None}
    assert all(name.startswith("_actor_network") for name in found)
    algorithm.zero_grad()
    observation = data.time_step.observation.flatten(0, 1)
    prev_tau = nest.map_structure(lambda x: x.flatten(0, 1), data.rollout_info.prev_tau)
    action, log_pi = algorithm._actor_network((observation, prev_tau.flat()))[0].rsample_with_log_prob()
    new = algorithm._value(observation, algorithm._trajectory.begin(action, prev_tau))
    old = algorithm._value(observation, algorithm._trajectory.go_on(prev_tau))
    chance = torch.sigmoid((new - old) / 0.7).detach()
    (0.7 * log_pi - chance * new).sum().backward()
    for name, gradient in found.items():
        assert torch.allclose(gradient, algorithm.get_parameter(name).grad, atol=1e-5), name


def test_targets_average_both_courses_by_the_switch() -> None:
    algorithm = make()
    data = batch(algorithm)
    inputs = nest.map_structure(lambda x: x[:, 0], data.time_step)
    taus = random_tau(0, 4), random_tau(0, 4)
    beta = Categorical(probs=torch.tensor([[0.25, 0.75]]).expand(4, 2))
    low, high = (algorithm._target_critics((inputs.observation, tau.a))[0].min(1).values for tau in taus)
    found = algorithm._target_values(inputs, taus, beta)
    assert torch.allclose(found, 0.25 * low + 0.75 * high, atol=1e-6)
    assert not found.requires_grad


def test_temperatures_follow_both_entropies() -> None:
    algorithm = make(initial_alpha=2.0, target_entropy=(lambda _: 0.25, lambda _: -3.0))
    data = batch(algorithm)
    out = algorithm._sample(*nest.map_structure(lambda x: x[:, 0], (data.time_step, data.rollout_info)))
    losses = algorithm._policy_losses(out)
    extra = losses["actor"].extra
    expected = math.log(2.0) * ((extra.beta_entropy - 0.25) + (extra.b1_a_entropy + 3.0))
    assert torch.allclose(losses["alpha"], expected, atol=1e-5)
    losses["alpha"].sum().backward()
    assert {name for name, p in algorithm.named_parameters() if p.grad is not None} == {"_log_alpha"}
    switch = BoundedTensorSpec((), torch.int64, 0, 1)
    default = [calc_default_target_entropy(switch), calc_default_target_entropy(ACTION)]
    assert make()._target_entropy.tolist() == pytest.approx(default)


@pytest.mark.parametrize("cls", ALGORITHMS)
def test_leaving_out_unused_values_changes_nothing(cls: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "randn_like", lambda x, **_: torch.full_like(x, 0.3))
    monkeypatch.setattr(Categorical, "sample", lambda self, shape=(): self.mode)
    algorithm = make(cls)
    data = batch(algorithm)
    valid = valid_masks(data.step_type.T)
    found = []
    for info in (
        steps_at_once(algorithm.train_step, algorithm.train_state_spec, data.time_step, (), data.rollout_info).info,
        algorithm.train_sequences(data.time_step, (), data.rollout_info),
    ):
        algorithm.zero_grad()
        (algorithm.calc_loss(info).loss * valid).mean().backward()
        found.append({name: p.grad.clone() for name, p in algorithm.named_parameters() if p.grad is not None})
    assert found[0].keys() == found[1].keys()
    assert all(torch.allclose(found[0][name], found[1][name], atol=1e-6) for name in found[0])


@pytest.mark.parametrize("cls", ALGORITHMS)
def test_updates_reach_every_network(cls: Any) -> None:
    algorithm = make(cls)
    before = {name: p.detach().clone() for name, p in algorithm.named_parameters()}
    assert algorithm.learning.update([Batch(batch(algorithm))]) == 12
    changed = {name.split(".")[0] for name, p in algorithm.named_parameters() if not torch.equal(p, before[name])}
    assert changed == {"_actor_network", "_critics", "_target_critics", "_log_alpha"}
    assert "_target" not in algorithm.get_optimizer_info()


def test_other_critic_losses_and_vector_rewards_work() -> None:
    algorithm = make(critic_loss_ctor=OneStepTDLoss, reward_spec=TensorSpec((2,)), reward_weights=[1.0, -1.0])
    data = batch(algorithm, reward_shape=(2,))
    info = algorithm.train_sequences(data.time_step, (), data.rollout_info)
    assert info.critic.critics.shape == (3, 4, 2, 2)
    assert info.critic.target_critic.shape == (3, 4, 2)
    assert algorithm.learning.update([Batch(data)]) == 12


def test_targets_move_by_tau_every_period() -> None:
    algorithm = make(target_update_tau=0.25, target_update_period=2)
    source, target = (next(iter(net.parameters())) for net in (algorithm._critics, algorithm._target_critics))
    with torch.no_grad():
        source.add_(1.0)
    before = target.detach().clone()
    algorithm.after_update((), ())
    assert torch.equal(target, before)
    algorithm.after_update((), ())
    assert torch.allclose(target, before + 0.25)


def test_the_actor_does_not_train_what_made_the_observation() -> None:
    for processors, has_gradient in (((), False), ({"actor_observation_processors": None}, True)):
        algorithm = make(**dict(processors))
        observation = torch.randn(4, 3, requires_grad=True)
        distribution, _ = algorithm._actor_network((observation, torch.zeros(4, 2)))
        distribution.rsample().sum().backward()
        assert (observation.grad is not None) == has_gradient


def test_nested_observations_get_the_processor_at_every_part() -> None:
    spec = {"a": TensorSpec((2,)), "b": TensorSpec((1,))}
    critic = partial(CriticNetwork, observation_preprocessing_combiner=NestConcat(), joint_fc_layer_params=(4,))
    algorithm = make(observation_spec=spec, critic_network_cls=critic)
    inputs = restart({"a": torch.randn(4, 2), "b": torch.randn(4, 1)}, ACTION)
    assert algorithm.rollout_step(inputs, zero_state(algorithm.rollout_state_spec, 4)).output.shape == (4, 2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"action_spec": BoundedTensorSpec((), torch.int64, 0, 3)}, "continuous vector"),
        ({"action_spec": (ACTION, ACTION)}, "continuous vector"),
        ({"action_spec": TensorSpec((2,))}, "continuous vector"),
        ({"initial_alpha": -1.0}, "initial_alpha is -1"),
        ({"initial_alpha": 0.0}, "must be positive"),
        ({"b1_advantage_clipping": (1.0, -1.0)}, "b1_advantage_clipping"),
        ({"max_repeat_steps": -1}, "max_repeat_steps"),
        ({"target_entropy": (1.0, 2.0, 3.0)}, "target_entropy"),
        ({"config": TrainerConfig(root_dir="", mini_batch_length=1)}, "at least 2 steps"),
        (
            {
                "actor_network_cls": partial(
                    ActorDistributionRNNNetwork, lstm_hidden_size=4, continuous_projection_net_ctor=PROJECTION
                )
            },
            "not recurrent",
        ),
    ],
)
def test_settings_that_make_no_sense(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(**changes)
