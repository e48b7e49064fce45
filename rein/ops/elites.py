"""The refit of the cross-entropy method: the moments of the best of a population."""

from __future__ import annotations

import torch
from torch import Tensor

from rein.ops.plans import comparable_cost


def elite_moments(plans: Tensor, cost: Tensor, elite_size: int) -> tuple[Tensor, Tensor]:
    """Gives mean and unbiased variance of the plans of least cost of each environment.

    De Boer et al. (2005), "A tutorial on the cross-entropy method", example 3.

    Args:
        plans: [B, M, H, A].
        cost: [B, M]; NaN counts as infinite.
        elite_size: how many of the M count, at least 2.

    Returns:
        [B, H, A] mean and [B, H, A] variance.
    """
    population = plans.shape[1]
    if not 2 <= elite_size <= population:
        raise ValueError(
            f"elite_size is {elite_size} of a population of {population}: it must be at least 2, for a variance, and at "
            "most the population"
        )
    best = comparable_cost(cost).topk(elite_size, 1, largest=False, sorted=False).indices
    rows = torch.arange(plans.shape[0], device=plans.device).unsqueeze(1)
    variance, mean = torch.var_mean(plans[rows, best], 1)
    return mean, variance
