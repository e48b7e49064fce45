"""See `rein.compat.sb3.vec_normalize`."""

from rein.compat.sb3.vec_normalize import (
    RunningMeanStd,
)

__all__ = [
    "RunningMeanStd",
]
