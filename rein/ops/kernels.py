"""The radial kernel `k(x, y) = exp(-|x - y|^2 / h)`, its width and its derivatives; N and M particles of dimension D."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

Bandwidth = Tensor | float | Callable[[Tensor], Tensor] | None
"""A positive width, or what makes it of the squared distances [N, M]; None: `median_bandwidth`."""

# Up to so many differences they are formed one by one; beyond, a matrix product is several times faster.
_MAX_DIFFERENCES = 1 << 18


def pairwise_squared_distance(x: Tensor, y: Tensor) -> Tensor:
    """Gives squared Euclidean distances between all rows.

    Few short particles are subtracted before squaring. For many long ones the square is expanded into a matrix product,
    around their common centre, since the expansion cancels far from the origin.

    Args:
        x: [N, D].
        y: [M, D].

    Returns:
        [N, M] squared distances.
    """
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1]:
        raise ValueError(f"expected [N, D] and [M, D], got {tuple(x.shape)} and {tuple(y.shape)}")
    if _is_small(x, y):
        return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist").square()
    return _expanded_squares(*_around_centre(x, y))


def _is_small(x: Tensor, y: Tensor) -> bool:
    return x.shape[0] * y.shape[0] * x.shape[1] <= _MAX_DIFFERENCES


def _around_centre(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Both sets of particles around the centre of the second; the same tensor twice if they are one set."""
    centre = y.mean(0)
    near_y = y - centre
    return near_y if x is y else x - centre, near_y


def _expanded_squares(x: Tensor, y: Tensor) -> Tensor:
    """Squared distances [N, M] by a matrix product."""
    if x is y:
        products = x @ x.t()
        squares = products.diagonal()
        return torch.add(squares.unsqueeze(1) + squares, products, alpha=-2.0).clamp(min=0.0)
    squares = torch.linalg.vecdot(x, x).unsqueeze(1) + torch.linalg.vecdot(y, y)
    return torch.addmm(squares, x, y.t(), alpha=-2.0).clamp(min=0.0)


def median_bandwidth(squared_distance: Tensor, count: int | None = None) -> Tensor:
    """Gives the kernel width for which each particle's influences sum to about one.

    Liu & Wang (2016), "Stein Variational Gradient Descent", section 5: the median of the squared distances over log n.

    Args:
        squared_distance: squared distances of any shape, those of particles to themselves included.
        count: n of the rule; None: the number of rows.

    Returns:
        [] width: median / max(log n, 1), and 1 where the median is 0; no gradient flows through it.
    """
    median = squared_distance.detach().flatten().median()
    width = median / max(math.log(squared_distance.shape[0] if count is None else count), 1.0)
    return torch.where(median > 0.0, width, torch.ones_like(width))


def rbf_kernel(x: Tensor, y: Tensor, bandwidth: Tensor | float | None = None) -> Tensor:
    """Gives `exp(-|x - y|^2 / bandwidth)` for all pairs.

    Args:
        x: [N, D].
        y: [M, D].
        bandwidth: positive width; by the median rule if None.

    Returns:
        [N, M] kernel values in (0, 1].
    """
    # A squared distance differentiates without the square root's infinite slope at coinciding particles.
    squared = (x.unsqueeze(1) - y.unsqueeze(0)).square().sum(-1) if _needs_grad(x, y) else None
    if squared is None:
        squared = pairwise_squared_distance(x, y)
    width = median_bandwidth(squared) if bandwidth is None else bandwidth
    return (-squared / width).exp()


@torch.no_grad()
def rbf_kernel_and_gradient(x: Tensor, y: Tensor, bandwidth: Bandwidth = None) -> tuple[Tensor, Tensor]:
    """Gives the kernel and its derivative by the first argument, summed over the first particles.

    Args:
        x: [N, D].
        y: [M, D].
        bandwidth: see `Bandwidth`.

    Returns:
        [N, M] kernel, and [M, D] sum over n of d k(x_n, y_m) / d x_n, which points from where the x are towards y_m.
    """
    if x is y:
        kernel, repulsion, centred = rbf_kernel_and_repulsion(x, bandwidth)
        return kernel, repulsion @ centred
    # The terms of the sum cancel the less the nearer the particles are to the origin.
    near_x, near_y = _around_centre(x, y)
    squared = pairwise_squared_distance(x, y) if _is_small(x, y) else _expanded_squares(near_x, near_y)
    kernel, factor = _kernel_and_factor(squared, bandwidth)
    gradient = factor.sum(1, keepdim=True) * near_y
    return kernel, gradient.addmm_(factor, near_x, alpha=-1.0)


@torch.no_grad()
def rbf_kernel_and_repulsion(x: Tensor, bandwidth: Bandwidth = None) -> tuple[Tensor, Tensor, Tensor]:
    """Gives the kernel of particles among themselves and its summed derivative as a product that is not yet made.

    Args:
        x: [N, D].
        bandwidth: see `Bandwidth`.

    Returns:
        [N, N] kernel, and [N, N] A and [N, D] c, x around its centre: row m of A c is the sum over n of
        d k(x_n, x_m) / d x_n.
    """
    centred = x - x.mean(0)
    squared = pairwise_squared_distance(x, x) if _is_small(x, x) else _expanded_squares(centred, centred)
    kernel, factor = _kernel_and_factor(squared, bandwidth)
    factor.fill_diagonal_(0.0)
    return kernel, torch.diag(factor.sum(1)) - factor, centred


def _kernel_and_factor(squared: Tensor, bandwidth: Bandwidth) -> tuple[Tensor, Tensor]:
    """The kernel [N, M] of squared distances and 2 k(x_n, y_m) / h [M, N], the factor of y_m - x_n in its derivative."""
    choose = median_bandwidth if bandwidth is None else bandwidth
    width = choose(squared) if callable(choose) else choose
    kernel = (-squared / width).exp()
    # Scaling the kernel and not the result saves passes over the particles, which are longer.
    return kernel, (2.0 / width) * kernel.t()


@torch.no_grad()
def rbf_kernel_gradients(x: Tensor, y: Tensor, kernel: Tensor, bandwidth: Tensor | float) -> Tensor:
    """Gives the derivative of the kernel by its first argument for every pair.

    Args:
        x: [N, D].
        y: [M, D].
        kernel: [N, M] its values.
        bandwidth: the width that they were computed with.

    Returns:
        [N, M, D] d k(x_n, y_m) / d x_n.
    """
    return (-2.0 / bandwidth) * kernel.unsqueeze(-1) * (x.unsqueeze(1) - y.unsqueeze(0))


@torch.no_grad()
def paired_rbf_kernel_and_gradient(x: Tensor, y: Tensor, bandwidth: Tensor | float) -> tuple[Tensor, Tensor]:
    """Gives the kernel of each row with the row beside it, and its derivative by the first argument.

    Args:
        x: [B, D].
        y: [B, D].
        bandwidth: positive width.

    Returns:
        [B] k(x_b, y_b), and [B, D] d k(x_b, y_b) / d x_b.
    """
    difference = x - y
    kernel = (-difference.square().sum(-1) / bandwidth).exp()
    return kernel, (-2.0 / bandwidth) * kernel.unsqueeze(-1) * difference


def _needs_grad(x: Tensor, y: Tensor) -> bool:
    return torch.is_grad_enabled() and (x.requires_grad or y.requires_grad)
