"""Functions that are configurable in ALF, and here plain operations."""

from torch import Tensor

from rein import ops
from rein.config import configurable


@configurable
def clipped_exp(value: Tensor, value_min: float = -20.0, value_max: float = 2.0) -> Tensor:
    """See `rein.ops.clipped_exp`; a conf may give the limits.

    Args:
        value: [...] exponents.
        value_min: smallest exponent.
        value_max: largest exponent.
    """
    return ops.clipped_exp(value, value_min, value_max)
