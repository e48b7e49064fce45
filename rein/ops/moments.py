"""Means, spreads and standardization of batches, with masks."""

from __future__ import annotations

import torch
from torch import Tensor

from rein.ops.scan import append_dims

Dim = int | tuple[int, ...] | None


def masked_mean(x: Tensor, mask: Tensor | None = None, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Averages the elements where the mask holds; 0 where it holds nowhere.

    Args:
        x: [...].
        mask: broadcastable to `x` by adding dimensions on the right; bool, or non-negative weights. All if None.
        dim: dimensions to average over; all if None.
        keepdim: keep averaged dimensions with size one.

    Returns:
        Mean over `dim`; elements masked out contribute neither value nor gradient, even if NaN.
    """
    if mask is None:
        return x.mean(dim=dim, keepdim=keepdim)
    weight = append_dims(mask, x.ndim).to(x.dtype).expand_as(x)
    total = torch.where(weight > 0, x * weight, 0.0).sum(dim=dim, keepdim=keepdim)
    mass = weight.sum(dim=dim, keepdim=keepdim)
    return total / torch.where(mass > 0, mass, 1.0)


def masked_variance(x: Tensor, mask: Tensor | None = None, dim: Dim = None, keepdim: bool = False) -> Tensor:
    """Gives the population variance of the elements where the mask holds.

    Args:
        x: [...].
        mask: as for `masked_mean`.
        dim: dimensions to average over; all if None.
        keepdim: keep averaged dimensions with size one.

    Returns:
        Variance over `dim`.
    """
    if mask is None:
        return x.var(dim=dim, correction=0, keepdim=keepdim)
    centred = x - masked_mean(x, mask, dim, keepdim=True)
    return masked_mean(centred.square(), mask, dim, keepdim)


def standardize(x: Tensor, mask: Tensor | None = None, dim: Dim = None, epsilon: float = 1e-8) -> Tensor:
    """Shifts and scales to zero mean and unit standard deviation over the masked elements.

    Args:
        x: [...], for example advantages.
        mask: as for `masked_mean`.
        dim: dimensions over which the statistics are taken; all if None.
        epsilon: added to the standard deviation.

    Returns:
        [...], also for elements that are masked out.
    """
    mean = masked_mean(x, mask, dim, keepdim=dim is not None)
    std = masked_variance(x, mask, dim, keepdim=dim is not None).sqrt()
    return (x - mean) / (std + epsilon)


@torch.no_grad()
def explained_variance(target: Tensor, prediction: Tensor, mask: Tensor | None = None) -> Tensor:
    """Gives the share of the target's variance that the prediction accounts for.

    Args:
        target: [T, B] or [T, B, D].
        prediction: of the same shape.
        mask: as for `masked_mean`.

    Returns:
        [] or [D]: 1 is perfect, 0 no better than a constant, -inf if the target is constant and the error is not,
        NaN if both are.
    """
    if target.shape != prediction.shape:
        raise ValueError(f"shapes differ: {tuple(target.shape)} and {tuple(prediction.shape)}")
    dim = tuple(range(min(2, target.ndim)))
    target, error = target.double(), target.double() - prediction.double()
    share = masked_variance(error, mask, dim) / masked_variance(target, mask, dim)
    return (1 - share).to(prediction.dtype)
