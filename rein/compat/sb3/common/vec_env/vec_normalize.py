"""See `rein.compat.sb3.vec_normalize`."""

from rein.compat.sb3.vec_normalize import (
    VecNormalize,
)

__all__ = [
    "VecNormalize",
]
