"""Moving sequences along time."""

from __future__ import annotations

import torch
from torch import Tensor


def shift(x: Tensor, steps: int, dim: int = 0, fill: float = 0.0) -> Tensor:
    """Moves elements along a dimension and fills the places that become free.

    Args:
        x: [..., T, ...].
        steps: positive delays (`y[t] = x[t - steps]`), negative advances.
        dim: the dimension of time.
        fill: value for the free places.

    Returns:
        A tensor shaped like `x`.
    """
    length = x.shape[dim]
    moved = min(abs(steps), length)
    free = torch.full_like(x.narrow(dim, 0, moved), fill)
    if steps >= 0:
        return torch.cat([free, x.narrow(dim, 0, length - moved)], dim=dim)
    return torch.cat([x.narrow(dim, moved, length - moved), free], dim=dim)


def delay(x: Tensor, initial: Tensor, dim: int = 0) -> Tensor:
    """Delays a sequence by one step, putting `initial` first.

    Args:
        x: [T, ...] if `dim` is 0.
        initial: [...], what precedes `x`.
        dim: the dimension of time.

    Returns:
        A tensor shaped like `x`.
    """
    first = initial.unsqueeze(dim).to(x.dtype)
    return torch.cat([first, x.narrow(dim, 0, x.shape[dim] - 1)], dim=dim)
