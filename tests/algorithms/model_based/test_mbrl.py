"""MBRL: what plans cost against a slow loop, what is learnt from sequences, acting, and what is refused."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from rein.algorithms.model_based import (
    CEMPlanAlgorithm,
    DeterministicDynamicsAlgorithm,
    DynamicsState,
    FixedRewardFunction,
    LearnedRewardFunction,
    MbrlAlgorithm,
    MbrlState,
    RandomShootingAlgorithm,
    RewardEstimationAlgorithm,
    StochasticDynamicsAlgorithm,
    imagination,
)
from rein.data_structures import AlgStep, LossInfo, TimeStep, restart, transition
from rein.framework import TrainerConfig
from rein.networks import Network
from rein.networks.state import zero_state
from rein.optimizers import Adam
from rein.specs import BoundedTensorSpec, TensorSpec

OBSERVATION = TensorSpec((2,))
ACTION = BoundedTensorSpec((1,), torch.float32, -1, 1)
SHOOTING = partial(RandomShootingAlgorithm, population_size=20, planning_horizon=3)


def distance(observation: Tensor, action: Tensor) -> Tensor:
    return -observation.square().sum(-1) - 0.1 * action.square().sum(-1)


def mbrl(cls: Any = DeterministicDynamicsAlgorithm, replicas: int = 1, **arguments: Any) -> MbrlAlgorithm:
    torch.manual_seed(0)
    usual: dict[str, Any] = {
        "reward_module": FixedRewardFunction(distance),
        "planner_module_ctor": SHOOTING,
        "dynamics_module_ctor": partial(cls, hidden_size=(8, 8), num_replicas=replicas),
    }
    return MbrlAlgorithm(OBSERVATION, ACTION, **{**usual, **arguments})


class Adding(Network):
    """The world s' = s + a, exactly."""

    def forward(self, inputs: Any, state: Any = ()) -> Any:
        return inputs[1].expand_as(inputs[0]), state


def adding(input_tensor_spec: Any, output_tensor_spec: Any) -> Network:
    return Adding(input_tensor_spec)


def cost_by_loop(algorithm: MbrlAlgorithm, observation: Tensor, plans: Tensor) -> Tensor:
    """One environment, plan and replica after the other, for a deterministic model."""
    model: Any = algorithm._dynamics_module
    networks = (
        [model._network] if model.num_replicas == 1 else [model._network.replica(i) for i in range(model.num_replicas)]
    )
    costs = torch.zeros(plans.shape[:2])
    for b in range(plans.shape[0]):
        for m in range(plans.shape[1]):
            returns = []
            for network in networks:
                feature, total = observation[b : b + 1], 0.0
                for h in range(plans.shape[2]):
                    action = plans[b, m, h : h + 1]
                    feature = feature + network((feature, action))[0]
                    total += distance(feature, action).item()
                returns.append(total)
            costs[b, m] = -sum(returns) / len(returns)
    return costs


@pytest.mark.parametrize("replicas", [1, 3])
@pytest.mark.parametrize("particles", [1, 4])
def test_plans_cost_what_a_slow_loop_says(replicas: int, particles: int, monkeypatch: pytest.MonkeyPatch) -> None:
    algorithm = mbrl(replicas=replicas, particles_per_replica=particles)
    observation, plans = torch.randn(2, 2), 2 * torch.rand(2, 5, 4, 1) - 1
    with torch.no_grad():
        expected = cost_by_loop(algorithm, observation, plans)
    torch.testing.assert_close(algorithm._cost_of_plans(observation, plans), expected)
    monkeypatch.setattr(imagination, "_STEPS_AT_ONCE", 3 * 2 * 4 * replicas * particles)
    torch.testing.assert_close(algorithm._cost_of_plans(observation, plans), expected)


def test_rewards_of_where_actions_led_are_summed_without_discount() -> None:
    algorithm = mbrl(dynamics_module_ctor=partial(DeterministicDynamicsAlgorithm, dynamics_network_ctor=adding))
    # From (1, 2) by -1 to (0, 1), then by 0.5 to (0.5, 1.5).
    cost = algorithm._cost_of_plans(torch.tensor([[1.0, 2.0]]), torch.tensor([-1.0, 0.5]).reshape(1, 1, 2, 1))
    assert cost.item() == pytest.approx((1.0 + 0.1) + (0.25 + 2.25 + 0.1 * 0.25))


def test_a_reward_may_depend_on_what_came_before() -> None:
    class Growing(RewardEstimationAlgorithm):
        """Rewards k at the k-th step."""

        def __init__(self) -> None:
            super().__init__()
            self._predict_state_spec = TensorSpec(())

        def compute_reward(self, obs: Tensor, action: Tensor, state: Any) -> Any:
            return state + 1.0, state + 1.0

        def train_step(self, time_step: Any, state: Any = (), rollout_info: Any = None) -> AlgStep:
            return AlgStep()

    algorithm = mbrl(reward_module=Growing())
    assert algorithm._cost_of_plans(torch.zeros(2, 2), torch.zeros(2, 3, 4, 1)).tolist() == [[-10.0] * 3] * 2


def test_particles_of_a_stochastic_model_average_its_noise() -> None:
    algorithm = mbrl(StochasticDynamicsAlgorithm, replicas=2, particles_per_replica=300)
    observation, plans = torch.zeros(1, 2), torch.zeros(1, 4, 2, 1)
    cost = algorithm._cost_of_plans(observation, plans)
    assert cost.shape == (1, 4)
    assert cost.std() / cost.mean() < 0.1
    assert len(set(cost[0].tolist())) == 4


def test_trajectories_begin_at_the_observation_and_follow_the_model() -> None:
    algorithm = mbrl(
        dynamics_module_ctor=partial(DeterministicDynamicsAlgorithm, num_replicas=2, dynamics_network_ctor=adding),
        particles_per_replica=3,
    )
    paths = algorithm.imagine(torch.tensor([[1.0, 2.0]]), torch.tensor([-1.0, 0.5]).reshape(1, 2, 1))
    assert paths.shape == (1, 6, 3, 2)
    for particle in paths[0]:
        assert particle.tolist() == [[1.0, 2.0], [0.0, 1.0], [0.5, 1.5]]


def test_acting_plans_and_then_remembers_what_it_saw() -> None:
    algorithm = mbrl(
        dynamics_module_ctor=partial(DeterministicDynamicsAlgorithm, dynamics_network_ctor=adding),
        planner_module_ctor=partial(CEMPlanAlgorithm, population_size=200, planning_horizon=3, elite_size=20),
    )
    observation = torch.tensor([[0.5, 0.5], [-0.8, -0.8]])
    state = zero_state(algorithm.rollout_state_spec, 2)
    for act in (algorithm.rollout_step, algorithm.predict_step):
        step = act(restart(observation, ACTION), state)
        torch.testing.assert_close(step.output, -observation[:, :1], atol=0.2, rtol=0)
        assert torch.equal(step.state.dynamics.feature, observation)
        assert torch.equal(step.state.planner.prev_plan[:, 0], step.output)
        assert step.info == ()


def test_rollouts_are_random_until_something_was_learnt() -> None:
    config = TrainerConfig("", initial_collect_steps=5, mini_batch_length=2, unroll_length=2)
    algorithm = mbrl(config=config)
    algorithm.planner.set_action_sequence_cost_func(lambda observation, plans: plans[:, :, 0, 0])
    step = restart(torch.zeros(200, 2), ACTION)
    state = zero_state(algorithm.rollout_state_spec, 200)
    random = algorithm.rollout_step(step, state).output
    assert random.mean().abs() < 0.2
    assert random.max() > 0.8
    assert algorithm.predict_step(step, state).output.max() < 0.0
    algorithm.after_update(step, ())  # type: ignore[arg-type]
    assert algorithm.rollout_step(step, state).output.max() < 0.0
    other = mbrl(config=config)
    other.load_state_dict(algorithm.state_dict())
    other.planner.set_action_sequence_cost_func(lambda observation, plans: plans[:, :, 0, 0])
    assert other.rollout_step(step, state).output.max() < 0.0


def sequences() -> TimeStep:
    torch.manual_seed(1)
    return TimeStep(
        step_type=torch.tensor([[1, 2, 0], [0, 1, 1]], dtype=torch.int32),
        reward=torch.randn(2, 3),
        discount=torch.ones(2, 3),
        observation=torch.randn(2, 3, 2),
        prev_action=torch.randn(2, 3, 1),
        env_id=torch.zeros(2, 3, dtype=torch.int64),
    )


def pair_loss(algorithm: MbrlAlgorithm, before: Tensor, action: Tensor, after: Tensor) -> float:
    change, _ = algorithm._dynamics_module._network((before[None], action[None]))  # type: ignore[union-attr]
    return (0.5 * (before + change[0] - after).square().mean()).item()


def test_sequences_without_stored_states_learn_from_the_pairs_in_them() -> None:
    algorithm = mbrl(config=TrainerConfig("", mini_batch_length=3, unroll_length=3))
    inputs = sequences()
    info = algorithm.train_recurrent_sequences(inputs, zero_state(algorithm.train_state_spec, 2), ())
    o, a = inputs.observation, inputs.prev_action
    expected = [
        [0.0, 0.0],
        [pair_loss(algorithm, o[0, 0], a[0, 1], o[0, 1]), pair_loss(algorithm, o[1, 0], a[1, 1], o[1, 1])],
        [0.0, pair_loss(algorithm, o[1, 1], a[1, 2], o[1, 2])],
    ]
    torch.testing.assert_close(info.dynamics.loss.loss, torch.tensor(expected))
    at_once = algorithm.train_sequences(inputs, (), ())
    assert torch.equal(at_once.dynamics.loss.loss, info.dynamics.loss.loss)
    loss = algorithm.calc_loss(info)
    assert loss.scalar_loss.item() == pytest.approx(sum(map(sum, expected)) / 6)
    assert set(loss.extra) == {"dynamics"}


def test_stored_states_make_the_first_pair_known() -> None:
    algorithm = mbrl(config=TrainerConfig("", mini_batch_length=1, use_rollout_state=True))
    inputs = sequences()
    before = torch.randn(2, 2)
    state = zero_state(algorithm.train_state_spec, 2)._replace(dynamics=DynamicsState(before))
    info = algorithm.train_recurrent_sequences(inputs, state, ())
    first = pair_loss(algorithm, before[0], inputs.prev_action[0, 0], inputs.observation[0, 0])
    torch.testing.assert_close(info.dynamics.loss.loss[0], torch.tensor([first, 0.0]))
    step = TimeStep(*(x[:, 0] if isinstance(x, Tensor) else x for x in inputs))
    by_step = algorithm.train_step(step, state)
    assert by_step.output == ()
    torch.testing.assert_close(by_step.info.dynamics.loss.loss, info.dynamics.loss.loss[0])


def test_a_learnt_reward_adds_its_loss_and_weighs_a_vector() -> None:
    learnt = LearnedRewardFunction(OBSERVATION, ACTION, hidden_size=4)
    algorithm = mbrl(reward_module=learnt, reward_spec=TensorSpec((2,)))
    algorithm.set_reward_weights(torch.tensor([1.0, -2.0]))
    inputs = sequences()._replace(reward=torch.randn(2, 3, 2))
    info = algorithm.train_recurrent_sequences(inputs, zero_state(algorithm.train_state_spec, 2), ())
    total = algorithm.calc_loss(info)
    guess, _ = learnt.compute_reward(inputs.observation, inputs.prev_action, ())
    error = guess - inputs.reward[..., 0] + 2 * inputs.reward[..., 1]
    expected = (0.5 * error.square() * (inputs.step_type != 0)).mean()
    dynamics = algorithm.calc_loss(info._replace(reward=())).scalar_loss
    torch.testing.assert_close(total.scalar_loss, dynamics + expected)
    assert set(total.extra) == {"dynamics", "reward"}


def test_a_planner_may_have_a_loss() -> None:
    class Learning(RandomShootingAlgorithm):
        def train_step(self, time_step: Any, state: Any, rollout_info: Any = None) -> AlgStep:
            return AlgStep(state=state, info=LossInfo(loss=torch.ones(time_step.step_type.shape)))

    algorithm = mbrl(planner_module_ctor=partial(Learning, population_size=5))
    info = algorithm.train_recurrent_sequences(sequences(), zero_state(algorithm.train_state_spec, 2), ())
    assert algorithm.calc_loss(info).loss.tolist() == [[1.0, 1.0]] * 3


def test_modules_have_their_own_optimizers() -> None:
    learnt = LearnedRewardFunction(OBSERVATION, ACTION, hidden_size=4)
    algorithm = mbrl(reward_module=learnt, dynamics_optimizer=Adam(lr=0.1), reward_optimizer=Adam(lr=0.2))
    rates = {o.param_groups[0]["lr"]: len(o.param_groups[0]["params"]) for o in algorithm.optimizers()}
    assert rates == {0.1: 6, 0.2: 4}


def test_the_state_names_its_parts() -> None:
    spec = mbrl(replicas=3).train_state_spec
    assert isinstance(spec, MbrlState)
    assert spec.dynamics.feature == TensorSpec((3, 2))
    assert spec.planner.prev_plan == TensorSpec((3, 1))
    assert spec.reward == ()


def first_sum(observation: Tensor, action: Tensor) -> Tensor:
    return observation.sum(1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"reward_module": FixedRewardFunction(lambda o, a: o)},
            r"gives rewards \(7, 2\) .* they must be a tensor \(7,\)",
        ),
        ({"reward_module": FixedRewardFunction(first_sum), "replicas": 3}, "reduce the last dimension and no other"),
        ({"reward_module": FixedRewardFunction(lambda o, a: 1.0)}, "gives rewards of type float"),  # type: ignore[arg-type]
        ({"reward_module": None}, "reward_module is None"),
        ({"particles_per_replica": 0}, "particles_per_replica must be a positive int, got 0"),
        ({"particles_per_replica": 1.5}, "particles_per_replica must be a positive int, got 1.5"),
        ({"feature_spec": TensorSpec((3,))}, "but what is observed is"),
        (
            {"planner_module_ctor": partial(SHOOTING, planning_horizon=0)},
            "planning_horizon must be a positive int, got 0",
        ),
        (
            {"config": TrainerConfig("", mini_batch_length=1, unroll_length=4)},
            "learns from pairs of steps, but mini_batch_length is 1",
        ),
        ({"config": TrainerConfig("", unroll_length=1)}, "set use_rollout_state=True"),
    ],
)
def test_what_cannot_work_is_refused_at_construction(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mbrl(**arguments)


def test_nested_observations_and_unbounded_actions_are_refused() -> None:
    with pytest.raises(ValueError, match="models how a single tensor changes"):
        MbrlAlgorithm([OBSERVATION, OBSERVATION], ACTION, FixedRewardFunction(distance), SHOOTING)
    with pytest.raises(ValueError, match="give a finite lower_bound"):
        MbrlAlgorithm(OBSERVATION, TensorSpec((1,)), FixedRewardFunction(distance), SHOOTING)  # type: ignore[arg-type]


def test_a_reward_of_the_wrong_shape_is_fine_once_it_reduces_the_last_dimension() -> None:
    time_step = transition(torch.zeros(1, 2), torch.zeros(1, 1), torch.zeros(1))
    algorithm = mbrl(replicas=3, reward_module=FixedRewardFunction(lambda o, a: o.sum(-1)))
    assert algorithm.predict_step(time_step, zero_state(algorithm.predict_state_spec, 1)).output.shape == (1, 1)
