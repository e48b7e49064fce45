"""See `rein.compat.sb3.evaluation`."""

from rein.compat.sb3.evaluation import (
    evaluate_policy,
)

__all__ = [
    "evaluate_policy",
]
