"""Numbers as distributions over integer bins, and the transform that squeezes large ones together.

n bins stand for the integers from -(n - 1) // 2 to n // 2.
"""

from __future__ import annotations

import torch
from torch import Tensor


def integer_bins(n: int, like: Tensor | None = None) -> Tensor:
    """The [n] integers that bins stand for, as floats.

    Args:
        n: number of bins.
        like: gives dtype and device; None is the default.
    """
    if n < 2:
        raise ValueError(f"a number needs at least 2 bins, got {n}")
    lowest = -((n - 1) // 2)
    if like is None:
        return torch.arange(lowest, lowest + n).to(torch.get_default_dtype())
    return torch.arange(lowest, lowest + n, device=like.device).to(like.dtype)


def two_bins(value: Tensor, n: int) -> Tensor:
    """Shares each number between the two integers around it, so that the mean of the bins is the number.

    Schrittwieser et al. (2020), appendix F.

    Args:
        value: [...]; numbers beyond the outer bins count as these.
        n: number of bins.

    Returns:
        [..., n] probabilities.
    """
    lowest = -((n - 1) // 2)
    position = (value - lowest).clamp(0, n - 1)
    below = position.floor().clamp_max(n - 2)
    share = (position - below).unsqueeze(-1)
    index = below.long().unsqueeze(-1)
    result = value.new_zeros(*value.shape, n)
    result.scatter_(-1, index, 1 - share)
    return result.scatter_(-1, index + 1, share)


def sqrt1p(x: Tensor) -> Tensor:
    """Squeezes numbers, sign(x) (sqrt(|x| + 1) - 1), computed as x / (sqrt(|x| + 1) + 1); any shape."""
    return x / ((x.abs() + 1).sqrt() + 1)


def inverse_sqrt1p(y: Tensor) -> Tensor:
    """The inverse of `sqrt1p`, (|y| + 2) y; any shape."""
    return (y.abs() + 2) * y
