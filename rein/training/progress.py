"""Where a run stands."""

from typing import NamedTuple


class Progress(NamedTuple):
    """Where a run stands."""

    iterations: int
    env_steps: int
    fraction: float
    seconds: float
    metrics: dict[str, float]
