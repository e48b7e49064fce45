"""Plans by sampling: sequences of actions are drawn, and those of least cost are kept.

    random shooting:  M uniform plans, the best one (Nagabandi et al. 2018, arXiv:1708.02596, section IV-C)
    cross-entropy:    M plans from a normal, refit to its best plans, several times (Chua et al. 2018, arXiv:1805.12114,
                      section 5; de Boer et al. 2005)

Only the first action of a plan is taken; the next step plans anew. What a plan costs is the business of whoever sets the
cost function, such as `MbrlAlgorithm`. All environments and all plans are evaluated in one call of it.

Beyond the papers: in the cross-entropy method each environment stops by itself once its variance is small, so that
environments of a batch do not influence each other; plans that are NaN lose.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rein.config import configurable
from rein.data_structures import AlgStep, TimeStep
from rein.framework import OffPolicyAlgorithm
from rein.nest import Nest
from rein.networks.layers.layer import check_sizes
from rein.ops import advance_plans, best_plans, elite_moments, normal_plans, uniform_plans
from rein.specs import BoundedTensorSpec, TensorSpec

CostFunction = Callable[[Tensor, Tensor], Tensor]
"""From observations [B, ...] and plans [B, M, H, A] to costs [B, M]."""
PlanListener = Callable[[Tensor, Tensor], None]
"""Told observations [B, ...] and the plans [B, H, A] that were found for them."""
Bound = float | Sequence[float] | None

_LEAST_VARIANCE = 1e-5


class PlannerState(NamedTuple):
    """What a planner remembers."""

    prev_plan: Nest = ()
    """[B, H, A] the plan of the step before."""


class PlannerInfo(NamedTuple):
    """What a planner has to learn from; nothing, for those here."""

    planner: Nest = ()


@configurable
class PlanAlgorithm(OffPolicyAlgorithm):
    """Base of planners, for one continuous action with bounds; derive and define `find_plan`."""

    export_obstacle = "it plans every action by trying many in a model, which is no fixed graph of tensor operations"

    def __init__(
        self,
        feature_spec: TensorSpec,
        action_spec: BoundedTensorSpec,
        reward_spec: TensorSpec = TensorSpec(()),
        planning_horizon: int = 25,
        upper_bound: Bound = None,
        lower_bound: Bound = None,
        name: str = "PlanningAlgorithm",
    ) -> None:
        """Makes the base of a planner.

        Args:
            feature_spec: of what is planned from.
            action_spec: of the action: one vector of real numbers, with finite bounds unless they are given here.
            reward_spec: a scalar, or a vector for several rewards.
            planning_horizon: H, actions of a plan.
            upper_bound: greatest value of the elements of an action, one for all or one for each; None is that of
                `action_spec`.
            lower_bound: least value, likewise.
            name: name in summaries.
        """
        check_sizes(name, planning_horizon=planning_horizon)
        _check_action(action_spec, name)
        lower, upper = _bounds(action_spec, lower_bound, upper_bound, name)
        state_spec = PlannerState(TensorSpec((planning_horizon, *action_spec.shape)))
        super().__init__(
            observation_spec=feature_spec,
            action_spec=action_spec,
            train_state_spec=state_spec,
            reward_spec=reward_spec,
            name=name,
        )
        self._planning_horizon = planning_horizon
        self._lower_bound: Tensor
        self._upper_bound: Tensor
        self.register_buffer("_lower_bound", lower, persistent=False)
        self.register_buffer("_upper_bound", upper, persistent=False)
        self._cost_func: CostFunction | None = None
        self._listener: PlanListener | None = None

    @property
    def planning_horizon(self) -> int:
        """Actions of a plan."""
        return self._planning_horizon

    def set_action_sequence_cost_func(self, action_seq_cost_func: CostFunction) -> None:
        """Says what plans cost.

        Args:
            action_seq_cost_func: from observations [B, ...] and plans [B, M, H, A] to costs [B, M].
        """
        self._cost_func = action_seq_cost_func

    def set_plan_listener(self, listener: PlanListener | None) -> None:
        """Says who is told of every plan that is acted on, to show it; None is nobody."""
        self._listener = listener

    def predict_plan(
        self, time_step: TimeStep, state: PlannerState, epsilon_greedy: float = 0.0
    ) -> tuple[Tensor, PlannerState]:
        """The action to take now, and the new state.

        Args:
            time_step: what is observed, [B, ...].
            state: of the step before.
            epsilon_greedy: not used: rollout and evaluation act alike.

        Returns:
            The first action of the plan, [B, A], and the state for the next step.
        """
        return self._plan(time_step, state)[:, 0], state

    def _plan(self, time_step: TimeStep, state: PlannerState) -> Tensor:
        plan = self.find_plan(time_step, state)
        if self._listener is not None:
            self._listener(time_step.observation, plan)
        return plan

    def find_plan(self, time_step: TimeStep, state: PlannerState) -> Tensor:
        """A plan of little cost for each environment, [B, H, A]; see `predict_plan`."""
        self._missing("find_plan")

    def uniform_action(self, batch_size: int) -> Tensor:
        """Actions [batch_size, A] drawn uniformly between the bounds."""
        return uniform_plans(self._lower_bound, self._upper_bound, batch_size, 1, 1)[:, 0, 0]

    def train_step(self, time_step: TimeStep, state: PlannerState, rollout_info: Nest = None) -> AlgStep:
        """Passes the state on: there is nothing to learn."""
        return AlgStep(state=state, info=PlannerInfo())

    def _cost(self, time_step: TimeStep, plans: Tensor) -> Tensor:
        """Costs [B, M] of plans [B, M, H, A]."""
        if self._cost_func is None:
            raise ValueError(f"{self.name} does not know what plans cost: call set_action_sequence_cost_func() first")
        cost = self._cost_func(time_step.observation, plans)
        if cost.shape != plans.shape[:2]:
            raise ValueError(
                f"{self.name}: the cost function gave {tuple(cost.shape)} for plans {tuple(plans.shape)}: it must give "
                f"{tuple(plans.shape[:2])}, one for each plan"
            )
        return cost


@configurable
class RandomShootingAlgorithm(PlanAlgorithm):
    """Draws many plans and takes the best."""

    def __init__(
        self,
        feature_spec: TensorSpec,
        action_spec: BoundedTensorSpec,
        population_size: int,
        reward_spec: TensorSpec = TensorSpec(()),
        planning_horizon: int = 25,
        upper_bound: Bound = None,
        lower_bound: Bound = None,
        name: str = "RandomShootingAlgorithm",
    ) -> None:
        """Makes the planner.

        Args:
            feature_spec: of what is planned from.
            action_spec: of the action: one vector of real numbers, with finite bounds unless they are given here.
            population_size: M, plans that are drawn for each environment.
            reward_spec: a scalar, or a vector for several rewards.
            planning_horizon: H, actions of a plan.
            upper_bound: greatest value of the elements of an action; None is that of `action_spec`.
            lower_bound: least value; None is that of `action_spec`.
            name: name in summaries.
        """
        check_sizes(name, population_size=population_size)
        super().__init__(feature_spec, action_spec, reward_spec, planning_horizon, upper_bound, lower_bound, name)
        self._population_size = population_size

    @torch.no_grad()
    def find_plan(self, time_step: TimeStep, state: PlannerState) -> Tensor:
        """The best of `population_size` uniform plans, [B, H, A]."""
        plans = uniform_plans(
            self._lower_bound,
            self._upper_bound,
            time_step.observation.shape[0],
            self._population_size,
            self._planning_horizon,
        )
        return best_plans(plans, self._cost(time_step, plans))

    def after_update(self, root_inputs: Nest, info: Nest) -> None:
        """Nothing."""


@configurable
class CEMPlanAlgorithm(RandomShootingAlgorithm):
    """Draws plans around a mean that moves to the best of them, begun with what is left of the plan before."""

    def __init__(
        self,
        feature_spec: TensorSpec,
        action_spec: BoundedTensorSpec,
        population_size: int,
        planning_horizon: int,
        reward_spec: TensorSpec = TensorSpec(()),
        elite_size: int = 50,
        max_iter_num: int | Tensor = 5,
        epsilon: float = 0.01,
        tau: float = 0.9,
        scalar_var: float | None = None,
        upper_bound: Bound = None,
        lower_bound: Bound = None,
        name: str = "CEMPlanAlgorithm",
    ) -> None:
        """Makes the planner.

        Args:
            feature_spec: of what is planned from.
            action_spec: of the action: one vector of real numbers, with finite bounds unless they are given here.
            population_size: M, plans that are drawn for each environment in each iteration.
            planning_horizon: H, actions of a plan.
            reward_spec: a scalar, or a vector for several rewards.
            elite_size: the best of a population, to which mean and variance move; at least 2.
            max_iter_num: iterations at most.
            epsilon: an environment stops when no element of its variance is above this.
            tau: how far mean and variance move, in (0, 1]: `new = (1 - tau) * old + tau * elites`.
            scalar_var: variance of every element at the start; None is half the range of each.
            upper_bound: greatest value of the elements of an action; None is that of `action_spec`.
            lower_bound: least value; None is that of `action_spec`.
            name: name in summaries.
        """
        super().__init__(
            feature_spec,
            action_spec,
            population_size,
            reward_spec=reward_spec,
            planning_horizon=planning_horizon,
            upper_bound=upper_bound,
            lower_bound=lower_bound,
            name=name,
        )
        check_sizes(name, max_iter_num=int(max_iter_num))
        if not 2 <= elite_size <= population_size:
            raise ValueError(
                f"{name}: elite_size is {elite_size} of a population of {population_size}: it must be at least 2, for a "
                "variance, and at most population_size"
            )
        if not 0.0 < tau <= 1.0:
            raise ValueError(f"{name}: tau is {tau}: it must be in (0, 1]")
        if epsilon < 0.0:
            raise ValueError(f"{name}: epsilon is {epsilon}: it must not be negative")
        if scalar_var is not None and not scalar_var > 0.0:
            raise ValueError(f"{name}: scalar_var is {scalar_var}: it must be positive, or None")
        self._elite_size = elite_size
        self._max_iter_num = int(max_iter_num)
        self._epsilon = epsilon
        self._tau = tau
        self._scalar_var = scalar_var

    def predict_plan(
        self, time_step: TimeStep, state: PlannerState, epislon_greedy: float = 0.0
    ) -> tuple[Tensor, PlannerState]:
        """The action to take now, and the plan, which the next step begins with.

        Args:
            time_step: what is observed, [B, ...].
            state: of the step before.
            epislon_greedy: not used; the documented spelling.

        Returns:
            The first action of the plan, [B, A], and the state for the next step.
        """
        plan = self._plan(time_step, state)
        return plan[:, 0], PlannerState(plan)

    @torch.no_grad()
    def find_plan(self, time_step: TimeStep, state: PlannerState) -> Tensor:
        """The mean of the last distribution, within the bounds, [B, H, A]."""
        mean = self._first_mean(time_step.is_first(), state.prev_plan)
        variance = self._first_variance().expand_as(mean)
        for _ in range(self._max_iter_num):
            is_moving = variance.amax((1, 2), keepdim=True) > self._epsilon
            if not bool(is_moving.any()):
                break
            plans = normal_plans(mean, variance.clamp(min=_LEAST_VARIANCE), self._population_size)
            cost = self._cost(time_step, self._clamped(plans))
            elite_mean, elite_variance = elite_moments(plans, cost, self._elite_size)
            mean = torch.where(is_moving, torch.lerp(mean, elite_mean, self._tau), mean)
            variance = torch.where(is_moving, torch.lerp(variance, elite_variance, self._tau), variance)
        return self._clamped(mean)

    def _first_mean(self, is_first: Tensor, prev_plan: Tensor) -> Tensor:
        """What is left of the plan before, its end the middle of the bounds; at FIRST steps the middle throughout."""
        middle = 0.5 * (self._lower_bound + self._upper_bound)
        return torch.where(is_first.reshape(-1, 1, 1), middle, advance_plans(prev_plan, middle))

    def _first_variance(self) -> Tensor:
        """[A]."""
        if self._scalar_var is not None:
            return torch.full_like(self._lower_bound, self._scalar_var)
        return 0.5 * (self._upper_bound - self._lower_bound)

    def _clamped(self, plans: Tensor) -> Tensor:
        return torch.clamp(plans, self._lower_bound, self._upper_bound)


def _check_action(spec: Nest, name: str) -> None:
    if not isinstance(spec, TensorSpec):
        raise ValueError(f"{name} plans one continuous action, but action_spec is {spec}: a nest of actions is refused")
    if not spec.is_continuous or spec.ndim != 1:
        raise ValueError(
            f"{name} plans a vector of real numbers, but action_spec is {spec}: use an algorithm for such actions, such as "
            "DqnAlgorithm for discrete ones, or change the action in the environment"
        )


def _bounds(spec: TensorSpec, lower: Bound, upper: Bound, name: str) -> tuple[Tensor, Tensor]:
    """Bounds [A] of the elements of an action."""
    sides = []
    for what, given, attribute in (("lower_bound", lower, "minimum"), ("upper_bound", upper, "maximum")):
        value = getattr(spec, attribute, None) if given is None else given
        if value is None or not np.isfinite(value).all():
            raise ValueError(
                f"{name} draws plans between bounds, but action_spec is {spec}: give a finite {what}, or bound the action "
                "in the environment"
            )
        if np.ndim(value) > 1 or np.size(value) not in (1, spec.numel):
            raise ValueError(f"{name}: {what} is {given}: give one number, or one for each of {spec.numel} elements")
        sides.append(torch.as_tensor(np.array(value), dtype=spec.dtype).expand(spec.shape).clone())
    if not bool(torch.isfinite(sides[1] - sides[0]).all()):
        raise ValueError(f"{name}: the range of the action is infinite in {spec.dtype}: give narrower bounds")
    if not bool((sides[0] < sides[1]).all()):
        raise ValueError(f"{name}: the lower bound {sides[0].tolist()} is not below the upper {sides[1].tolist()}")
    return sides[0], sides[1]
