"""See `rein.compat.sb3.model`."""

from rein.compat.sb3.model import (
    BaseAlgorithm,
)

__all__ = [
    "BaseAlgorithm",
]
