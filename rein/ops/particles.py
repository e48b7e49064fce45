"""Directions of particle-based variational inference, N particles of dimension D.

The target has the density exp(-E(x)) up to a constant. Every direction g is one of *descent*: `x - rate * g` brings the
particles nearer to the target. `entropy_weight` w weighs the entropy of the particles: they settle on exp(-E / w).
"""

from __future__ import annotations

import torch
from torch import Tensor

from rein.ops.kernels import Bandwidth, rbf_kernel_and_gradient, rbf_kernel_and_repulsion


@torch.no_grad()
def svgd_direction(
    particles: Tensor,
    loss_gradient: Tensor,
    entropy_weight: float = 1.0,
    bandwidth: Bandwidth = None,
    others: Tensor | None = None,
) -> Tensor:
    """Gives the direction of Stein variational gradient descent.

    Liu & Wang (2016), "Stein Variational Gradient Descent: A General Purpose Bayesian Inference Algorithm", eq. 8:
    g_j = mean_i k(x_i, x_j) dE/dx_i - w mean_i d/dx_i k(x_i, x_j).

    Args:
        particles: [N, D], those that move.
        loss_gradient: [M, D], dE/dx at `others`.
        entropy_weight: w.
        bandwidth: positive kernel width, or what makes it of squared distances; by the median rule if None.
        others: [M, D], the particles x_i that the means are over; None: `particles`.

    Returns:
        [N, D] descent directions.
    """
    others = particles if others is None else others
    kernel, repulsion = rbf_kernel_and_gradient(others, particles, bandwidth)
    share = 1.0 / others.shape[0]
    return repulsion.addmm_(kernel.t(), loss_gradient, beta=-entropy_weight * share, alpha=share)


@torch.no_grad()
def smoothed_score(particles: Tensor, bandwidth: Tensor | float | None = None, ridge: float = 1e-4) -> Tensor:
    """Estimates the gradient of the log density that particles were drawn from.

    Liu et al. (2019), "Understanding and Accelerating Particle-Based Variational Inference", section 3.2 (GFSF):
    s = -(K + ridge I)^-1 sum_i d/dx_i k(x_i, .).

    Args:
        particles: [N, D].
        bandwidth: positive kernel width; by the median rule if None.
        ridge: added to the diagonal of the kernel matrix, which is nearly singular; the estimate is sensitive to it.

    Returns:
        [N, D] estimated scores.
    """
    kernel, repulsion, centred = rbf_kernel_and_repulsion(particles, bandwidth)
    kernel.diagonal().add_(ridge)
    count, size = particles.shape
    if size <= count:
        return -torch.linalg.solve(kernel, repulsion @ centred)
    # Long particles: to solve for N columns, and with more digits, takes a fraction of the time that D columns take.
    return torch.linalg.solve(kernel.double(), repulsion.double()).neg_().to(particles.dtype) @ centred


@torch.no_grad()
def gfsf_direction(
    particles: Tensor,
    loss_gradient: Tensor,
    entropy_weight: float = 1.0,
    bandwidth: Tensor | float | None = None,
    ridge: float = 1e-4,
) -> Tensor:
    """Gives the direction of the Wasserstein gradient flow with smoothed functions, g = dE/dx + w s.

    Args:
        particles: [N, D].
        loss_gradient: [N, D], dE/dx at each particle.
        entropy_weight: w.
        bandwidth: positive kernel width; by the median rule if None.
        ridge: see `smoothed_score`.

    Returns:
        [N, D] descent directions.
    """
    return torch.add(loss_gradient, smoothed_score(particles, bandwidth, ridge), alpha=entropy_weight)


def hutchinson_trace(outputs: Tensor, inputs: Tensor, noise: Tensor) -> Tensor:
    """Estimates the trace of the Jacobian of outputs by inputs as noise^T J noise, without bias for white noise.

    Args:
        outputs: [N, D], a differentiable function of `inputs`, row by row.
        inputs: [N, D].
        noise: [N, D] with mean 0 and covariance I.

    Returns:
        [N] traces, through which gradient flows.
    """
    (product,) = torch.autograd.grad(outputs, inputs, noise, create_graph=True)
    return (product * noise).sum(-1)


def fisher_critic_loss(
    critic: Tensor, trace: Tensor, loss_gradient: Tensor, entropy_weight: float, l2_weight: float
) -> Tensor:
    """The loss whose minimum is f = -(dE/dx + w score) / (2 l2), the negative direction of the Fisher neural sampler.

    Hu et al. (2018), "Stein Neural Sampler", section 3.3: mean(dE/dx . f - w tr(df/dx)) + l2 mean |f|^2.

    Args:
        critic: [N, D], f at the particles.
        trace: [N], trace of df/dx.
        loss_gradient: [N, D], dE/dx; a constant.
        entropy_weight: w.
        l2_weight: l2, positive.

    Returns:
        [] loss.
    """
    stein = (loss_gradient * critic).sum(-1) - entropy_weight * trace
    return stein.mean() + l2_weight * critic.square().sum(-1).mean()


def solve_jacobian(jacobian: Tensor, vectors: Tensor) -> Tensor:
    """Solves y^T J = v^T for each of many vectors.

    Args:
        jacobian: [N, D, D], invertible.
        vectors: [N, M, D], v.

    Returns:
        [N, M, D] y.
    """
    # The rows of `vectors` are right-hand sides of y J = v: a solve from the right.
    return torch.linalg.solve(jacobian, vectors, left=False)


def solve_block_jacobian(jacobian_head: Tensor, tail_product: Tensor, vectors: Tensor, diagonal: Tensor) -> Tensor:
    """Solves y^T J = v^T for J = [[A + lambda I, 0], [B, lambda I]], which needs an inverse of A's size only.

    The blocks come from x = f(z_1) + lambda z, with A and B the derivatives of the first K and the last D - K outputs
    of f by z_1, the first K elements of z.

    Args:
        jacobian_head: [N, K, K], A + lambda I.
        tail_product: [N, M, K], v_2^T B.
        vectors: [N, M, D], v.
        diagonal: [] lambda, positive.

    Returns:
        [N, M, D] y.
    """
    size = jacobian_head.shape[-1]
    tail = vectors[..., size:] / diagonal
    head = solve_jacobian(jacobian_head, vectors[..., :size] - tail_product / diagonal)
    return torch.cat([head, tail], -1)
