"""Functions of the remaining progress, for keywords that take one."""

from collections.abc import Callable

Schedule = Callable[[float], float]


def constant_fn(val: float) -> Schedule:
    """Always the same number."""
    return lambda remaining: val


def get_linear_fn(start: float, end: float, end_fraction: float) -> Schedule:
    """A line from `start` to `end`, which it reaches when `end_fraction` of the training is done."""

    def line(remaining: float) -> float:
        done = min(1.0, (1.0 - remaining) / end_fraction)
        return start + done * (end - start)

    return line


def get_schedule_fn(value_schedule: float | Schedule) -> Schedule:
    """A number or a function as a function."""
    return value_schedule if callable(value_schedule) else constant_fn(float(value_schedule))
