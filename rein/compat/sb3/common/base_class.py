"""See `rein.compat.sb3.saved_model`."""

from rein.compat.sb3.saved_model import (
    BaseAlgorithm,
)

__all__ = [
    "BaseAlgorithm",
]
