"""Scores by which tree search selects children."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def puct_exploration_weight(parent_visits: Tensor, c_init: float, c_base: float) -> Tensor:
    """Gives the factor that balances prior against value and grows slowly with the parent's visits.

    Schrittwieser et al. (2020), "Mastering Atari, Go, Chess and Shogi by Planning with a Learned Model", appendix B,
    eq. 2.

    Args:
        parent_visits: [...], number of simulations through the parent.
        c_init: c1 of the paper.
        c_base: c2 of the paper.

    Returns:
        [...] weights.
    """
    return torch.log1p((parent_visits + 1.0) / c_base) + c_init


def puct_score(
    value: Tensor,
    prior: Tensor,
    child_visits: Tensor,
    parent_visits: Tensor,
    c_init: float = 1.25,
    c_base: float = 19652.0,
) -> Tensor:
    """Scores the children of each node by value plus an exploration bonus.

    Schrittwieser et al. (2020), "Mastering Atari, Go, Chess and Shogi by Planning with a Learned Model", appendix B,
    eq. 2.

    Args:
        value: [..., A], normalized to [0, 1].
        prior: [..., A], probability of each child.
        child_visits: [..., A], number of simulations through each child.
        parent_visits: [...], number of simulations through the parent.
        c_init: c1 of the paper.
        c_base: c2 of the paper.

    Returns:
        [..., A] scores; the largest is visited next.
    """
    parent = parent_visits.unsqueeze(-1).to(value.dtype)
    weight = puct_exploration_weight(parent, c_init, c_base) * parent.sqrt()
    return value + prior * weight / (1.0 + child_visits)


def min_max_normalize(value: Tensor, minimum: Tensor, maximum: Tensor, min_delta: float = 1e-30) -> Tensor:
    """Scales values seen in a tree to [0, 1], once it has seen two that differ; until then they stay as they are.

    Schrittwieser et al. (2020), appendix B, eq. 5; the range is kept at or above `min_delta`.

    Args:
        value: [...].
        minimum: [...], smallest value in the tree; infinity if there is none yet.
        maximum: [...], largest value in the tree; minus infinity if there is none yet.
        min_delta: smallest range to divide by.

    Returns:
        [...] scaled values.
    """
    if not min_delta > 0.0 or math.isinf(min_delta):
        raise ValueError(f"min_delta must be positive and finite, got {min_delta}")
    differ = maximum > minimum
    # Infinite bounds, of a tree without values, must not reach the division: their NaN would reach the gradient.
    low, high = torch.where(differ, minimum, 0.0), torch.where(differ, maximum, 1.0)
    return torch.where(differ, (value - low) / (high - low).clamp(min=min_delta), value)
