"""Radial kernels and the particle directions built on them; N particles of dimension D."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def pairwise_squared_distance(x: Tensor, y: Tensor) -> Tensor:
    """Gives squared Euclidean distances between all rows.

    Differences are formed before squaring: the expansion of the square cancels for close particles.

    Args:
        x: [N, D].
        y: [M, D].

    Returns:
        [N, M] squared distances.
    """
    if x.ndim != 2 or y.ndim != 2 or x.shape[1] != y.shape[1]:
        raise ValueError(f"expected [N, D] and [M, D], got {tuple(x.shape)} and {tuple(y.shape)}")
    return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist").square()


def median_bandwidth(squared_distance: Tensor, min_bandwidth: float = 1e-6) -> Tensor:
    """Gives the kernel width for which each particle's influences sum to about one.

    Liu & Wang (2016), "Stein Variational Gradient Descent", section 5: the median of the squared distances over log N.

    Args:
        squared_distance: [N, M].
        min_bandwidth: lower bound, which counts when particles coincide.

    Returns:
        [] width; no gradient flows through it.
    """
    median = squared_distance.detach().flatten().median()
    return (median / math.log(squared_distance.shape[0] + 1)).clamp(min=min_bandwidth)


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
def rbf_kernel_and_gradient(x: Tensor, y: Tensor, bandwidth: Tensor | float | None = None) -> tuple[Tensor, Tensor]:
    """Gives the kernel and its derivative by the first argument, summed over the first particles.

    Args:
        x: [N, D].
        y: [M, D].
        bandwidth: positive width; by the median rule if None.

    Returns:
        [N, M] kernel, and [M, D] sum over n of d k(x_n, y_m) / d x_n, which pushes y_m away from dense regions.
    """
    squared = pairwise_squared_distance(x, y)
    width = median_bandwidth(squared) if bandwidth is None else bandwidth
    kernel = (-squared / width).exp()
    gradient = (2.0 / width) * (kernel.sum(dim=0).unsqueeze(1) * y - kernel.t() @ x)
    return kernel, gradient


@torch.no_grad()
def svgd_direction(
    particles: Tensor, score: Tensor, entropy_weight: float = 1.0, bandwidth: Tensor | float | None = None
) -> Tensor:
    """Gives the direction in which Stein variational gradient descent moves each particle.

    Liu & Wang (2016), "Stein Variational Gradient Descent: A General Purpose Bayesian Inference Algorithm", eq. 8.

    Args:
        particles: [N, D].
        score: [N, D], gradient of the log density of the target at each particle.
        entropy_weight: weight of the repulsion; 1 samples the target.
        bandwidth: positive kernel width; by the median rule if None.

    Returns:
        [N, D] ascent directions.
    """
    kernel, repulsion = rbf_kernel_and_gradient(particles, particles, bandwidth)
    return (kernel.t() @ score + entropy_weight * repulsion) / particles.shape[0]


@torch.no_grad()
def gfsf_direction(
    particles: Tensor,
    score: Tensor,
    entropy_weight: float = 1.0,
    bandwidth: Tensor | float | None = None,
    ridge: float = 1e-3,
) -> Tensor:
    """Gives the direction of the Wasserstein gradient flow with smoothed functions.

    Liu et al. (2019), "Understanding and Accelerating Particle-Based Variational Inference", section 3.2 (GFSF).

    Args:
        particles: [N, D].
        score: [N, D], gradient of the log density of the target at each particle.
        entropy_weight: weight of the repulsion; 1 samples the target.
        bandwidth: positive kernel width; by the median rule if None.
        ridge: added to the diagonal of the kernel matrix, which is singular when particles coincide.

    Returns:
        [N, D] ascent directions.
    """
    kernel, repulsion = rbf_kernel_and_gradient(particles, particles, bandwidth)
    eye = torch.eye(kernel.shape[0], dtype=kernel.dtype, device=kernel.device)
    return score + entropy_weight * torch.linalg.solve(kernel + ridge * eye, repulsion)


def _needs_grad(x: Tensor, y: Tensor) -> bool:
    return torch.is_grad_enabled() and (x.requires_grad or y.requires_grad)
