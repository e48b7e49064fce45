"""See `rein.compat.sb3.algorithms`."""

from rein.compat.sb3.algorithms import (
    OffPolicyAlgorithm,
)

__all__ = [
    "OffPolicyAlgorithm",
]
