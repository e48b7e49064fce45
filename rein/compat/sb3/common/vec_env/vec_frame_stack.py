"""See `rein.compat.sb3.vec_wrappers`."""

from rein.compat.sb3.vec_wrappers import (
    VecFrameStack,
)

__all__ = [
    "VecFrameStack",
]
