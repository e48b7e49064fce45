"""Planners: the anchors of their optimizers, warm starts, bounds, and what they refuse."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from rein.algorithms.model_based import CEMPlanAlgorithm, PlanAlgorithm, PlannerState, RandomShootingAlgorithm
from rein.data_structures import TimeStep, restart, transition
from rein.networks.state import zero_state
from rein.specs import BoundedTensorSpec, TensorSpec

ONE = BoundedTensorSpec((1,), torch.float32, -1, 1)
FEATURE = TensorSpec((1,))
CEM = partial(CEMPlanAlgorithm, FEATURE, ONE, population_size=400, elite_size=40, scalar_var=1.0)
SHOOTING = partial(RandomShootingAlgorithm, FEATURE, ONE, population_size=5000)


def begin(batch: int = 1, spec: Any = ONE) -> TimeStep:
    return restart(torch.zeros(batch, 1), spec)


def plan(planner: Any, cost: Any, time_step: TimeStep | None = None, state: Any = None) -> Tensor:
    planner.set_action_sequence_cost_func(cost)
    time_step = begin() if time_step is None else time_step
    found: Tensor = planner.find_plan(
        time_step, zero_state(planner.rollout_state_spec, time_step.step_type.shape[0]) if state is None else state
    )
    return found


def walk(observation: Tensor, plans: Tensor) -> Tensor:
    """Costs in the world s' = s + a with reward -s'^2 from s = 1."""
    positions = 1.0 + plans[..., 0].cumsum(2)
    return positions.square().sum(2)


def line(observation: Tensor, plans: Tensor) -> Tensor:
    return (plans[..., 0] - torch.linspace(-0.8, 0.8, 25)).square().sum(2)


def test_random_shooting_goes_back_to_the_middle() -> None:
    torch.manual_seed(0)
    planner = SHOOTING(planning_horizon=3)
    actions = [plan(planner, walk)[0, 0, 0].item() for _ in range(10)]
    assert min(actions) >= -1.0
    assert max(actions) <= -0.8


def test_cem_goes_back_to_the_middle_within_the_bounds() -> None:
    torch.manual_seed(0)
    planner = CEM(planning_horizon=3, max_iter_num=5)
    for _ in range(5):
        actions = plan(planner, walk)[0, :, 0]
        assert actions[0].item() == pytest.approx(-1.0, abs=0.02)
        assert actions.abs().max() <= 1.0


def test_cem_is_the_better_optimizer_in_many_dimensions() -> None:
    torch.manual_seed(0)
    assert line(torch.zeros(1, 1), torch.zeros(1, 1, 25, 1)).item() == pytest.approx(5.78, abs=0.01)

    def left(planner: Any) -> float:
        return line(torch.zeros(1, 1), plan(planner, line).unsqueeze(1)).item()

    assert left(CEM(planning_horizon=25, max_iter_num=20)) < 0.01
    assert 0.2 < left(CEM(planning_horizon=25, max_iter_num=5)) < 1.6
    assert 3.5 < left(SHOOTING(planning_horizon=25)) < 5.5


def test_one_iteration_of_cem_by_hand() -> None:
    seen = []

    def cost(observation: Tensor, plans: Tensor) -> Tensor:
        seen.append(plans)
        return plans[..., 0].sum(2)

    planner = CEMPlanAlgorithm(
        FEATURE, ONE, 8, 2, elite_size=3, max_iter_num=1, tau=0.5, scalar_var=4.0, name="planner"
    )
    torch.manual_seed(3)
    found = plan(planner, cost)
    torch.manual_seed(3)
    drawn = 2.0 * torch.randn(1, 8, 2, 1)
    assert torch.equal(seen[0], drawn.clamp(-1, 1)), "what is evaluated is within the bounds"
    order = sorted(range(8), key=lambda i: float(drawn[0, i].clamp(-1, 1).sum()))[:3]
    elites = torch.stack([drawn[0, i] for i in order])
    torch.testing.assert_close(found[0], (0.5 * elites.mean(0)).clamp(-1, 1))


def test_the_first_variance_is_half_the_range_unless_given() -> None:
    spec = BoundedTensorSpec((2,), torch.float32, [-1, 0], [1, 6])
    assert CEMPlanAlgorithm(FEATURE, spec, 8, 2, elite_size=2)._first_variance().tolist() == [1.0, 3.0]
    given = CEMPlanAlgorithm(FEATURE, spec, 8, 2, elite_size=2, scalar_var=0.5)
    assert given._first_variance().tolist() == [0.5, 0.5]


def test_cem_begins_with_the_rest_of_its_plan_and_at_first_steps_in_the_middle() -> None:
    spec = BoundedTensorSpec((1,), torch.float32, 0, 2)
    planner = CEMPlanAlgorithm(FEATURE, spec, 8, 3, elite_size=2)
    state = PlannerState(torch.tensor([[[0.1], [0.2], [0.3]]] * 2))
    mean = planner._first_mean(torch.tensor([False, True]), state.prev_plan)
    assert mean[:, :, 0].tolist() == [pytest.approx([0.2, 0.3, 1.0]), [1.0, 1.0, 1.0]]


def test_cem_remembers_its_plan_and_random_shooting_its_state() -> None:
    torch.manual_seed(0)
    cem, shooting = CEM(planning_horizon=4), SHOOTING(planning_horizon=4)
    state = PlannerState(torch.rand(1, 4, 1))
    for planner in (cem, shooting):
        planner.set_action_sequence_cost_func(walk)
    action, after = cem.predict_plan(begin(), state, 0.0)
    assert action.shape == (1, 1)
    assert torch.equal(after.prev_plan[:, 0], action)
    assert shooting.predict_plan(begin(), state, 0.0)[1] is state
    assert cem.train_step(begin(), state).state is state


def test_a_converged_environment_stays_while_others_go_on() -> None:
    planner = CEMPlanAlgorithm(FEATURE, ONE, 50, 2, elite_size=5, max_iter_num=12, epsilon=0.3, scalar_var=1.0)
    calls = []

    def cost(observation: Tensor, plans: Tensor) -> Tensor:
        calls.append(plans)
        actions = plans[..., 0]
        # The first environment wants 0 and then, too late, 1; the second goes to both extremes and never converges.
        first = actions[0].square().sum(1) if len(calls) <= 4 else -actions[0].sum(1)
        return torch.stack([first, -actions[1].abs().sum(1)])

    torch.manual_seed(0)
    found = plan(planner, cost, begin(2))
    assert len(calls) == 12
    assert found[0].abs().max() < 0.3


def test_environments_of_a_batch_do_not_influence_each_other() -> None:
    def cost(observation: Tensor, plans: Tensor) -> Tensor:
        return (plans[..., 0] - observation.unsqueeze(-1)).square().sum(2)

    def second(first: float, is_first: bool, previous: float) -> Tensor:
        observation = torch.tensor([[first], [0.5]])
        time_step = transition(observation, torch.zeros(2, 1), torch.zeros(2))
        if is_first:
            time_step = time_step._replace(step_type=torch.tensor([0, 1], dtype=torch.int32))
        state = PlannerState(torch.stack([torch.full((4, 1), previous), torch.full((4, 1), 0.1)]))
        torch.manual_seed(0)
        return plan(CEM(planning_horizon=4), cost, time_step, state)[1]

    reference = second(-0.5, False, 0.0)
    assert torch.equal(reference, second(0.9, False, 0.0))
    assert torch.equal(reference, second(-0.5, True, 0.0))
    assert torch.equal(reference, second(-0.5, False, 0.7))
    torch.testing.assert_close(reference, torch.full((4, 1), 0.5), atol=0.1, rtol=0)


@pytest.mark.parametrize("cls", ["shooting", "cem"])
def test_bounds_are_per_element_and_may_be_given(cls: str) -> None:
    spec = BoundedTensorSpec((2,), torch.float32, [-1, 0], [1, 6])
    arguments: dict[str, Any] = {"population_size": 200, "planning_horizon": 3}
    make: Any = RandomShootingAlgorithm if cls == "shooting" else partial(CEMPlanAlgorithm, elite_size=20)

    def wants_much(observation: Tensor, plans: Tensor) -> Tensor:
        assert plans.shape == (1, 200, 3, 2)
        return -plans.sum((2, 3))

    torch.manual_seed(0)
    found = plan(make(FEATURE, spec, **arguments), wants_much, begin(spec=spec))
    assert (found[..., 0] <= 1).all()
    assert 3 < found[..., 1].mean() <= 6
    given = plan(make(FEATURE, spec, upper_bound=0.5, lower_bound=(-1, 0), **arguments), wants_much, begin(spec=spec))
    assert given.max() <= 0.5
    unbounded = TensorSpec((2,))
    assert make(FEATURE, unbounded, upper_bound=1, lower_bound=0, **arguments).uniform_action(3).shape == (3, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"planning_horizon": 0}, "planning_horizon must be a positive int, got 0"),
        ({"population_size": 0}, "population_size must be a positive int, got 0"),
        ({"elite_size": 101}, "elite_size is 101 of a population of 100"),
        ({"elite_size": 1}, "elite_size is 1 of .* at least 2"),
        ({"max_iter_num": 0}, "max_iter_num must be a positive int, got 0"),
        ({"tau": 0.0}, "tau is 0.0"),
        ({"epsilon": -1.0}, "epsilon is -1.0"),
        ({"scalar_var": 0.0}, "scalar_var is 0.0"),
        ({"action_spec": TensorSpec((1,))}, "give a finite lower_bound, or bound the action"),
        ({"action_spec": BoundedTensorSpec((1,), torch.float32, 0, float("inf"))}, "give a finite upper_bound"),
        ({"action_spec": BoundedTensorSpec((), torch.int64, 0, 3)}, "plans a vector of real numbers"),
        ({"action_spec": (ONE, ONE)}, "a nest of actions is refused"),
        ({"action_spec": BoundedTensorSpec((1,), torch.float32, -3e38, 3e38)}, "the range of the action is infinite"),
        ({"upper_bound": -1.0}, "is not below the upper"),
        ({"upper_bound": (1.0, 2.0)}, "one for each of 1 elements"),
    ],
)
def test_what_cannot_be_planned_is_refused(arguments: dict[str, Any], message: str) -> None:
    usual = {"feature_spec": FEATURE, "action_spec": ONE, "population_size": 100, "planning_horizon": 5}
    with pytest.raises(ValueError, match=message):
        CEMPlanAlgorithm(**{**usual, **arguments})


def test_a_planner_says_what_it_lacks() -> None:
    planner = SHOOTING(planning_horizon=2)
    with pytest.raises(ValueError, match="call set_action_sequence_cost_func"):
        planner.predict_plan(begin(), PlannerState(), 0.0)
    with pytest.raises(ValueError, match=r"gave \(1,\) for plans .*: it must give \(1, 5000\)"):
        plan(planner, lambda observation, plans: torch.zeros(1))
    with pytest.raises(NotImplementedError, match="find_plan"):
        PlanAlgorithm(FEATURE, ONE).predict_plan(begin(), PlannerState(), 0.0)
