"""Values that change with the progress of the current run, usable wherever a `float | Scheduler` is documented.

A scheduler holds no state: it is a function of the run's progress. It compares by value, can be pickled, and gives
the same value after a checkpoint is restored.
"""

from __future__ import annotations

import bisect
import itertools
import math
import numbers
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard

from rein.config import configurable
from rein.runtime.run import PROGRESS_TYPES, ProgressType, current_run


class Scheduler:
    """A number that is asked for anew each time it is needed: `scheduler()`."""

    def __call__(self) -> float:
        """Returns the value at the progress of the current run."""
        raise NotImplementedError

    def final_value(self) -> float:
        """Returns the value at the end of training."""
        raise NotImplementedError


Schedule = tuple[tuple[float, float], ...]


Changing = Any
"""What a number that may change is given as: a number, a `Scheduler`, points of a line, or a function of progress."""


def as_scheduler(value: Changing) -> Scheduler:
    """Returns a scheduler for whatever a parameter that may change was given.

    Args:
        value: a number, which becomes constant; a scheduler, which is returned as it is; pairs (progress in [0, 1], value),
            between which the value follows straight lines; or a function of the progress in [0, 1].
    """
    if isinstance(value, Scheduler):
        return value
    if is_number(value):
        return ConstantScheduler(float(value))
    if isinstance(value, list | tuple):
        return LinearScheduler("percent", tuple(value))
    if callable(value) and not isinstance(value, type):
        return FunctionScheduler(value)
    raise TypeError(
        f"expected a number, a Scheduler, pairs (progress, value) or a function of progress, got {value!r} of type "
        f"{type(value).__name__}"
    )


def is_number(value: Any) -> TypeGuard[float]:
    """Whether a value that may change never does, because it is a number."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def scheduled(value: Changing, of_a_number: Callable[[float], Scheduler]) -> Scheduler:
    """A schedule that is given, as it is; of a number, the schedule that is usual for it.

    Args:
        value: what a parameter that may change was given.
        of_a_number: makes the usual one, such as a line that falls from the number to zero.
    """
    return of_a_number(float(value)) if is_number(value) else as_scheduler(value)


@configurable
@dataclass(frozen=True)
class ConstantScheduler(Scheduler):
    """Always the same value; needs no run.

    Attributes:
        value: the value.
    """

    value: float

    def __call__(self) -> float:  # noqa: D102
        return self.value

    def final_value(self) -> float:  # noqa: D102
        return self.value


@configurable
@dataclass(frozen=True)
class StepScheduler(Scheduler):
    """Constant pieces: each value of the schedule holds until its progress, the last one for ever.

    Attributes:
        progress_type: how progress is measured: "percent" (in [0, 1]), "iterations", "env_steps" or "global_counter".
        schedule: pairs (progress, value), progress increasing. `[(0.5, 1e-3), (1.0, 1e-4)]` is 1e-3 before one half and
            1e-4 from there on.
        warm_up_period: progress during which the value rises linearly from 0 to what the schedule says.
        start: progress at which the schedule starts; before it the value is the first one.
    """

    progress_type: ProgressType
    schedule: Schedule
    warm_up_period: float = 0.0
    start: float = 0.0

    def __post_init__(self) -> None:
        _check_progress_type(self.progress_type)
        object.__setattr__(self, "schedule", _check_schedule(self.schedule))
        if self.warm_up_period < 0:
            raise ValueError(f"warm_up_period must not be negative, got {self.warm_up_period}")

    def __call__(self) -> float:  # noqa: D102
        progress = current_run().get_progress(self.progress_type) - self.start
        index = bisect.bisect_right(self.schedule, progress, key=lambda pair: pair[0])
        value = self.schedule[min(index, len(self.schedule) - 1)][1]
        if progress < self.warm_up_period:
            value *= max(progress, 0.0) / self.warm_up_period
        return value

    def final_value(self) -> float:  # noqa: D102
        return self.schedule[-1][1]


@configurable
@dataclass(frozen=True)
class LinearScheduler(Scheduler):
    """Straight lines between given points; constant before the first and after the last.

    Attributes:
        progress_type: how progress is measured: "percent" (in [0, 1]), "iterations", "env_steps" or "global_counter".
        schedule: pairs (progress, value), progress increasing. `[(0, 1.0), (10000, 0.1)]` falls from 1 to 0.1.
    """

    progress_type: ProgressType
    schedule: Schedule

    def __post_init__(self) -> None:
        _check_progress_type(self.progress_type)
        object.__setattr__(self, "schedule", _check_schedule(self.schedule))

    def __call__(self) -> float:  # noqa: D102
        progress = current_run().get_progress(self.progress_type)
        right = bisect.bisect_right(self.schedule, progress, key=lambda pair: pair[0])
        if right == 0:
            return self.schedule[0][1]
        if right == len(self.schedule):
            return self.schedule[-1][1]
        (start, before), (end, after) = self.schedule[right - 1], self.schedule[right]
        return before + (after - before) * (progress - start) / (end - start)

    def final_value(self) -> float:  # noqa: D102
        return self.schedule[-1][1]


@configurable
@dataclass(frozen=True)
class FunctionScheduler(Scheduler):
    """A function of progress.

    Attributes:
        function: called with the progress, returns the value.
        progress_type: how progress is measured: "percent" (in [0, 1]), "iterations", "env_steps" or "global_counter".
    """

    function: Callable[[float], float]
    progress_type: ProgressType = "percent"

    def __post_init__(self) -> None:
        _check_progress_type(self.progress_type)
        if not callable(self.function):
            raise TypeError(f"function must be callable, got {self.function!r}")

    def __call__(self) -> float:  # noqa: D102
        return self._at(current_run().get_progress(self.progress_type))

    def final_value(self) -> float:  # noqa: D102
        if self.progress_type != "percent":
            raise ValueError(
                f"a function of {self.progress_type} has no final value: it is not known how far that goes"
            )
        return self._at(1.0)

    def _at(self, progress: float) -> float:
        value = self.function(progress)
        if not is_number(value):
            raise TypeError(
                f"the schedule {self.function!r} has given {value!r} at progress {progress:.4g}: give a number"
            )
        return float(value)


@configurable
@dataclass(frozen=True)
class RepeatWarmupScheduler(Scheduler):
    """Warms up again and again: in each period the value rises linearly from `start_value`, then holds.

    With a scheduler for `value`, for example a decaying one, each period rises to what that one says now.

    Attributes:
        progress_type: how progress is measured: "percent" (in [0, 1]), "iterations", "env_steps" or "global_counter".
        period: progress from one warm-up to the next.
        warm_up_period: progress that each warm-up takes, at most `period`.
        value: what it rises to.
        start_value: what it rises from.
        repeats: number of periods, after which the value holds; 0 repeats for ever.
    """

    progress_type: ProgressType
    period: float
    warm_up_period: float
    value: float | Scheduler
    start_value: float = 0.0
    repeats: int = 0

    def __post_init__(self) -> None:
        _check_progress_type(self.progress_type)
        object.__setattr__(self, "value", as_scheduler(self.value))
        if not 0 < self.warm_up_period <= self.period:
            raise ValueError(
                f"need 0 < warm_up_period <= period, got warm_up_period={self.warm_up_period}, period={self.period}"
            )
        if self.repeats < 0:
            raise ValueError(f"repeats must not be negative, got {self.repeats}")

    def __call__(self) -> float:  # noqa: D102
        progress = current_run().get_progress(self.progress_type)
        top = as_scheduler(self.value)()
        periods, position = divmod(progress, self.period)
        if position >= self.warm_up_period or (self.repeats and periods >= self.repeats):
            return top
        return self.start_value + (top - self.start_value) * position / self.warm_up_period

    def final_value(self) -> float:  # noqa: D102
        return as_scheduler(self.value).final_value()


@configurable
@dataclass(frozen=True)
class CyclicalScheduler(Scheduler):
    """Goes to and fro between two values (Smith 2017, arXiv:1506.01186).

    Attributes:
        progress_type: how progress is measured: "percent" (in [0, 1]), "iterations", "env_steps" or "global_counter".
        base_lr: where it begins.
        bound_lr: where it is after half of a cycle.
        half_cycle_size: progress of half of a cycle.
        switch_mode: "step" has each value for half of a cycle, "linear" goes from one to the other in a line.
    """

    progress_type: ProgressType
    base_lr: float
    bound_lr: float
    half_cycle_size: float
    switch_mode: str = "step"

    def __post_init__(self) -> None:
        _check_progress_type(self.progress_type)
        if self.half_cycle_size <= 0:
            raise ValueError(f"half_cycle_size must be positive, got {self.half_cycle_size}")
        if self.switch_mode not in ("step", "linear"):
            raise ValueError(f"switch_mode is {self.switch_mode!r}: choose 'step' or 'linear'")

    def __call__(self) -> float:  # noqa: D102
        halves, position = divmod(current_run().get_progress(self.progress_type), self.half_cycle_size)
        returns = halves % 2 == 1
        if self.switch_mode == "step":
            return self.bound_lr if returns else self.base_lr
        share = position / self.half_cycle_size
        return self.base_lr + (self.bound_lr - self.base_lr) * (1.0 - share if returns else share)

    def final_value(self) -> float:  # noqa: D102
        raise ValueError("CyclicalScheduler has no final value: it goes to and fro for ever")


class Condition(Protocol):
    """Tells whether something holds in the current run."""

    def __call__(self) -> bool:
        """Returns whether it holds now."""


@configurable
@dataclass(frozen=True)
class ProgressAtLeast:
    """Holds once the current run has come so far.

    Attributes:
        progress_type: how progress is measured: "percent" (in [0, 1]), "iterations", "env_steps" or "global_counter".
        threshold: the progress from which on it holds.
    """

    progress_type: ProgressType
    threshold: float

    def __post_init__(self) -> None:
        _check_progress_type(self.progress_type)

    def __call__(self) -> bool:
        """Returns whether the run has come so far."""
        return current_run().get_progress(self.progress_type) >= self.threshold


@configurable
@dataclass(frozen=True)
class ConditionalScheduler(Scheduler):
    """One of two values, by a condition on the current run.

    `ConditionalScheduler(ProgressAtLeast("env_steps", 10_000), then=LinearScheduler(...), otherwise=0.0)`

    Attributes:
        condition: asked each time; a function of the run only.
        then: the value while it holds.
        otherwise: the value while it does not.
    """

    condition: Condition | Callable[[], bool]
    then: float | Scheduler
    otherwise: float | Scheduler

    def __post_init__(self) -> None:
        if not callable(self.condition):
            raise TypeError(f"condition must be callable, got {self.condition!r}")
        object.__setattr__(self, "then", as_scheduler(self.then))
        object.__setattr__(self, "otherwise", as_scheduler(self.otherwise))

    def __call__(self) -> float:  # noqa: D102
        return as_scheduler(self.then if self.condition() else self.otherwise)()

    def final_value(self) -> float:  # noqa: D102
        return as_scheduler(self.then).final_value()


def _check_progress_type(progress_type: str) -> None:
    if progress_type not in PROGRESS_TYPES:
        raise ValueError(f"unknown progress type {progress_type!r}; choose from {', '.join(PROGRESS_TYPES)}")


def _check_schedule(schedule: Iterable[Iterable[float]]) -> Schedule:
    pairs = tuple(tuple(float(number) for number in pair) for pair in schedule)
    if not pairs or any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"a schedule is a non-empty list of pairs (progress, value), got {schedule!r}")
    points = [pair[0] for pair in pairs]
    if any(a >= b for a, b in itertools.pairwise(points)) or not all(map(math.isfinite, points)):
        raise ValueError(f"the progress of a schedule must increase strictly, got {points}")
    return pairs  # type: ignore[return-value]
