"""Element-wise losses; none reduces over time or batch, so that masks and weights can still be applied."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor


def element_wise_squared_loss(x: Tensor, y: Tensor) -> Tensor:
    """Gives the squared difference of each element.

    Args:
        x: [...], usually the target.
        y: [...], usually the prediction.

    Returns:
        [...] `(x - y) ** 2`.
    """
    return (x - y).square()


def element_wise_huber_loss(x: Tensor, y: Tensor) -> Tensor:
    """Gives the Huber loss of each element, quadratic up to a difference of one.

    Args:
        x: [...], usually the target.
        y: [...], usually the prediction.

    Returns:
        [...] `huber_function(x - y)`.
    """
    return F.huber_loss(x, y, reduction="none") if x.shape == y.shape else huber_function(x - y)


def huber_function(x: Tensor, delta: float = 1.0) -> Tensor:
    """Is quadratic near zero and linear beyond `delta`, with slope `delta`.

    Huber (1964), "Robust Estimation of a Location Parameter".

    Args:
        x: [...], errors.
        delta: where the quadratic part ends.

    Returns:
        [...] losses.
    """
    if delta <= 0:
        raise ValueError(f"delta must be positive, got {delta}")
    return F.huber_loss(x, torch.zeros_like(x), reduction="none", delta=delta)


def expectile_loss(error: Tensor, expectile: float) -> Tensor:
    """Weighs squared errors by `expectile` where positive and by its complement where negative.

    Kostrikov et al. (2022), "Offline Reinforcement Learning with Implicit Q-Learning", eq. 4.

    Args:
        error: [...], target minus prediction.
        expectile: 0.5 is half the squared loss; towards 1 the prediction approaches the largest target.

    Returns:
        [...] losses.
    """
    if not 0.0 < expectile < 1.0:
        raise ValueError(f"expectile must be in (0, 1), got {expectile}")
    return torch.where(error > 0, expectile, 1.0 - expectile) * error.square()


def quantile_huber_loss(
    quantile: Tensor,
    target: Tensor,
    level: Tensor,
    huber_fn: Callable[[Tensor], Tensor] = huber_function,
    sum_over_quantiles: bool = False,
) -> Tensor:
    """Regresses predicted quantiles on samples or quantiles of the target distribution.

    Dabney et al. (2018), "Distributional Reinforcement Learning with Quantile Regression", eq. 9 and 10; with sampled
    `level`, Dabney et al. (2018), "Implicit Quantile Networks for Distributional Reinforcement Learning", eq. 3.

    Args:
        quantile: [..., N], predicted quantiles.
        target: [..., M], samples of the target, each equally likely; no gradient flows to them.
        level: [N] or [..., N], the probability below each predicted quantile.
        huber_fn: loss of an error.
        sum_over_quantiles: sum over the N predictions instead of averaging; targets are always averaged.

    Returns:
        [...] losses.
    """
    if quantile.shape[:-1] != target.shape[:-1]:
        raise ValueError(
            f"quantile {tuple(quantile.shape)} and target {tuple(target.shape)} must agree in all but the "
            "last dimension"
        )
    error = target.detach().unsqueeze(-2) - quantile.unsqueeze(-1)  # [..., N, M]
    weight = (level.unsqueeze(-1) - (error.detach() < 0).to(level.dtype)).abs()
    per_quantile = (weight * huber_fn(error)).mean(dim=-1)
    return per_quantile.sum(dim=-1) if sum_over_quantiles else per_quantile.mean(dim=-1)
