"""Plans, sequences of actions, of many environments at once: drawn, chosen by cost, and moved on by a step."""

from __future__ import annotations

import torch
from torch import Tensor


def uniform_plans(lower: Tensor, upper: Tensor, batch_size: int, population: int, horizon: int) -> Tensor:
    """Draws plans uniformly between bounds.

    Args:
        lower: [A] least value of each element of an action.
        upper: [A] greatest value.
        batch_size: B, environments.
        population: M, plans of each environment.
        horizon: H, actions of each plan.

    Returns:
        [B, M, H, A].
    """
    unit = torch.rand(batch_size, population, horizon, *lower.shape, dtype=lower.dtype, device=lower.device)
    return torch.lerp(lower, upper, unit)


def normal_plans(mean: Tensor, variance: Tensor, population: int) -> Tensor:
    """Draws plans from normal distributions with independent elements.

    Args:
        mean: [B, H, A].
        variance: [B, H, A], not negative.
        population: M, plans of each environment.

    Returns:
        [B, M, H, A].
    """
    batch, *rest = mean.shape
    noise = torch.randn(batch, population, *rest, dtype=mean.dtype, device=mean.device)
    return torch.addcmul(mean.unsqueeze(1), noise, variance.sqrt().unsqueeze(1))


def best_plans(plans: Tensor, cost: Tensor) -> Tensor:
    """Takes the plan of least cost of each environment; the first of several.

    Args:
        plans: [B, M, H, A].
        cost: [B, M]; NaN counts as infinite, so that a diverged plan loses.

    Returns:
        [B, H, A].
    """
    rows = torch.arange(cost.shape[0], device=cost.device)
    return plans[rows, comparable_cost(cost).argmin(1)]


def comparable_cost(cost: Tensor) -> Tensor:
    """Gives costs that can be ranked: NaN becomes infinite.

    Args:
        cost: [...].

    Returns:
        [...].
    """
    return cost.masked_fill(cost.isnan(), torch.inf)


def advance_plans(plans: Tensor, last: Tensor) -> Tensor:
    """Leaves out the first action of plans, which was taken, and appends one.

    Args:
        plans: [B, H, A].
        last: [A] or [B, A], the action at the free last place.

    Returns:
        [B, H, A].
    """
    end = last.expand(plans.shape[0], *plans.shape[2:]).unsqueeze(1)
    return torch.cat([plans[:, 1:], end], 1)
