"""Distributions represented by quantiles."""

from __future__ import annotations

import torch
from torch import Tensor


def quantile_midpoints(
    num_quantiles: int, device: torch.device | str | None = None, dtype: torch.dtype | None = None
) -> Tensor:
    """Gives the levels at which N quantiles approximate a distribution best.

    Dabney et al. (2018), "Distributional Reinforcement Learning with Quantile Regression", lemma 2.

    Args:
        num_quantiles: N.
        device: where to create the tensor.
        dtype: dtype of the tensor; torch's default if None.

    Returns:
        [N] levels (2 i + 1) / (2 N).
    """
    if num_quantiles < 1:
        raise ValueError(f"num_quantiles must be at least 1, got {num_quantiles}")
    dtype = dtype or torch.get_default_dtype()
    index = torch.arange(num_quantiles, device=device, dtype=dtype)
    return (index + 0.5) / num_quantiles


def quantile_mean(quantile: Tensor, weight: Tensor | None = None) -> Tensor:
    """Gives the mean of a distribution from its quantiles.

    Args:
        quantile: [..., N].
        weight: [..., N], probability between neighbouring levels, summing to one; equal if None.

    Returns:
        [...] means.
    """
    return quantile.mean(dim=-1) if weight is None else (quantile * weight).sum(dim=-1)


def quantile_variance(quantile: Tensor) -> Tensor:
    """Gives the variance of a distribution from its equally likely quantiles.

    Args:
        quantile: [..., N].

    Returns:
        [...] population variances.
    """
    return quantile.var(dim=-1, correction=0)


def conditional_value_at_risk(quantile: Tensor, alpha: float) -> Tensor:
    """Averages the worst share of a distribution, counting a quantile partly where the share ends in it.

    Rockafellar & Uryasev (2000), "Optimization of Conditional Value-at-Risk".

    Args:
        quantile: [..., N], equally likely, in any order.
        alpha: share of the outcomes, in (0, 1]; 1 is the mean.

    Returns:
        [...] averages of the lowest outcomes.
    """
    if not 0.0 < alpha <= 1.0:
        raise ValueError(f"alpha must be in (0, 1], got {alpha}")
    ordered = quantile.sort(dim=-1).values
    count = quantile.shape[-1]
    index = torch.arange(count, device=quantile.device, dtype=quantile.dtype)
    weight = (alpha * count - index).clamp(0.0, 1.0)
    return (ordered * weight).sum(dim=-1) / (alpha * count)
