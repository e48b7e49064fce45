"""See `rein.compat.sb3.vec_wrappers`."""

from rein.compat.sb3.vec_wrappers import (
    VecTransposeImage,
)

__all__ = [
    "VecTransposeImage",
]
