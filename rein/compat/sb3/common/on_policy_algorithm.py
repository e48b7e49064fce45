"""See `rein.compat.sb3.algorithms`."""

from rein.compat.sb3.algorithms import (
    OnPolicyAlgorithm,
)

__all__ = [
    "OnPolicyAlgorithm",
]
