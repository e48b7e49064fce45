"""Ways to move what a generator makes: each turns a batch of outputs into a loss whose gradient is a direction.

x_j are the outputs that move, with N of them; see `particle_vi` for the directions.

    plain    g_j = dE/dx_j
    svgd     one other sample x'_j for each: g_j = k(x'_j, x_j) dE/dx'_j - w d/dx'_j k(x'_j, x_j)
    svgd2    the first half of the batch is moved by means over the second
    svgd3    the batch is moved by means over another one of the same size
    gfsf     g_j = dE/dx_j + w s_j on the batch itself
    minmax   g_j = -f(x_j), the critic trained on other batches or on this one
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from rein.algorithms.particle_vi.critic import CriticAlgorithm
from rein.algorithms.particle_vi.propagation import LossFunction, loss_and_gradient, propagated_loss
from rein.nest import Nest
from rein.ops import (
    gfsf_direction,
    median_bandwidth,
    paired_rbf_kernel_and_gradient,
    rbf_kernel_and_gradient,
    smoothed_score,
    svgd_direction,
)
from rein.statistics import ScalarAdaptiveAverager

_RIDGE = 1e-5

Transform = Callable[[Any], tuple[Tensor, Tensor, Any]]
"""From parameters [N, D], or (parameters, samples), to outputs [N, O], density outputs [N, O'], and the samples."""


class GeneratedBatch(NamedTuple):
    """What a method works on."""

    outputs: Tensor
    """[N, D]"""
    noise: Tensor
    """[N, K] that they were made from."""
    inputs: Nest
    """What they were conditioned on, [N, ...]; None if nothing."""
    loss_func: LossFunction
    transform: Transform | None
    entropy_weight: float
    resample: Callable[[], tuple[Tensor, Tensor]]
    """Other outputs and their noise, for the same inputs; without gradient."""

    def loss_at(self, x: Tensor) -> Any:
        """What the loss function says of outputs, and its gradient."""
        if self.inputs is None:
            return loss_and_gradient(self.loss_func, x)
        return loss_and_gradient(self.loss_func, x, lambda point: [point, self.inputs])


class Moved(NamedTuple):
    """What a method makes of a batch."""

    loss: Tensor
    """[N] whose gradient is the direction; [N / 2] for svgd2."""
    user_loss: Nest
    """What the loss function returned."""
    inverse_mvp_loss: Nest = ()


class Method(Protocol):
    """A way to move outputs."""

    def __call__(self, batch: GeneratedBatch) -> Moved:
        """The loss that moves the outputs of a batch."""
        ...


class KernelWidth(nn.Module):
    """The width of the kernel by the median rule, of this batch or averaged over batches."""

    def __init__(self, is_averaged: bool) -> None:
        """Starts without data."""
        super().__init__()
        self._averager = ScalarAdaptiveAverager() if is_averaged else None

    def forward(self, squared_distance: Tensor, count: int) -> Tensor:
        """The width for squared distances, `count` being the n of `median_bandwidth`."""
        width = median_bandwidth(squared_distance, count)
        return width if self._averager is None else self._averager.average(width)


def plain(batch: GeneratedBatch) -> Moved:
    """Descends the loss alone."""
    outputs = batch.outputs if batch.transform is None else batch.transform(batch.outputs)[0]
    loss, gradient = batch.loss_at(outputs)
    return Moved(propagated_loss(gradient, outputs), loss)


class PairedStein:
    """Svgd: needs one other sample only, and so works for conditional generators."""

    def __init__(self, width: KernelWidth) -> None:
        """Keeps the width."""
        self._width = width

    def __call__(self, batch: GeneratedBatch) -> Moved:
        """See the module."""
        x, (other, _) = batch.outputs, batch.resample()
        squared = (other - x.detach()).square().sum(-1)
        width = self._width(squared, squared.shape[0])
        kernel, gradient_of_kernel = paired_rbf_kernel_and_gradient(other, x.detach(), width)
        loss, gradient = batch.loss_at(other)
        direction = kernel.unsqueeze(-1) * gradient - batch.entropy_weight * gradient_of_kernel
        return Moved(propagated_loss(direction, x), loss)


class SplitStein:
    """Svgd2: one batch in two halves."""

    def __init__(self, width: KernelWidth) -> None:
        """Keeps the width."""
        self._width = width

    def __call__(self, batch: GeneratedBatch) -> Moved:
        """See the module."""
        count = batch.outputs.shape[0]
        if count % 2:
            raise ValueError(f"par_vi='svgd2' splits its batch in two halves: {count} samples are odd, make them even")
        x, other = moved, fixed = batch.outputs.chunk(2)
        if batch.transform is not None:
            outputs, density_outputs, _ = batch.transform(batch.outputs)
            x, other = outputs.chunk(2)
            moved, fixed = torch.cat([outputs, density_outputs], -1).chunk(2)
        return _stein(batch, self._width, x, moved, other, fixed)


class ResampledStein:
    """Svgd3: two batches."""

    def __init__(self, width: KernelWidth) -> None:
        """Keeps the width."""
        self._width = width

    def __call__(self, batch: GeneratedBatch) -> Moved:
        """See the module."""
        x = moved = batch.outputs
        other = fixed = batch.resample()[0]
        if batch.transform is not None:
            x, density_outputs, samples = batch.transform(x)
            moved = torch.cat([x, density_outputs], -1)
            with torch.no_grad():
                other, density_outputs, _ = batch.transform((other, samples))
            fixed = torch.cat([other, density_outputs], -1)
        return _stein(batch, self._width, x, moved, other, fixed)


def _stein(batch: GeneratedBatch, width: KernelWidth, x: Tensor, moved: Tensor, other: Tensor, fixed: Tensor) -> Moved:
    """Moves `x` by means over `other`; `moved` and `fixed` are the points where the kernel compares them."""

    def bandwidth(squared: Tensor) -> Tensor:
        return width(squared, squared.numel())

    loss, gradient = batch.loss_at(other)
    if moved is x:
        direction = svgd_direction(x.detach(), gradient, batch.entropy_weight, bandwidth, fixed.detach())
        return Moved(propagated_loss(direction, x), loss)
    kernel, repulsion = rbf_kernel_and_gradient(fixed.detach(), moved.detach(), bandwidth)
    attraction = propagated_loss(kernel.t() @ gradient, x)
    total = attraction - batch.entropy_weight * propagated_loss(repulsion, moved)
    return Moved(total / fixed.shape[0], loss)


def smoothed_flow(batch: GeneratedBatch) -> Moved:
    """Gfsf: the gradient flow with smoothed functions."""
    outputs = batch.outputs
    if batch.transform is None:
        loss, gradient = batch.loss_at(outputs)
        direction = gfsf_direction(outputs.detach(), gradient, batch.entropy_weight, ridge=_RIDGE)
        return Moved(propagated_loss(direction, outputs), loss)
    outputs, density_outputs, _ = batch.transform(outputs)
    points = torch.cat([outputs, density_outputs], -1)
    loss, gradient = batch.loss_at(outputs)
    score = smoothed_score(points.detach(), ridge=_RIDGE)
    return Moved(propagated_loss(gradient, outputs) + batch.entropy_weight * propagated_loss(score, points), loss)


class FisherSampler:
    """Minmax: a critic that learns the direction."""

    def __init__(self, critic: CriticAlgorithm, iterations: int, l2_weight: float, resamples: bool) -> None:
        """Keeps the critic.

        Args:
            critic: f.
            iterations: its updates per step.
            l2_weight: weight of |f|^2.
            resamples: whether each of its updates sees other outputs.
        """
        self._critic, self._iterations = critic, iterations
        self._l2_weight, self._resamples = l2_weight, resamples

    def __call__(self, batch: GeneratedBatch) -> Moved:
        """See the module."""
        x = batch.outputs
        loss, gradient = batch.loss_at(x)
        seen, gradient_there = x, gradient
        for _ in range(self._iterations):
            if self._resamples:
                seen, _ = batch.resample()
                gradient_there = batch.loss_at(seen)[1]
            self._critic.improve(seen, gradient_there, batch.entropy_weight, self._l2_weight)
        return Moved(propagated_loss(-self._critic.predict_step(x.detach()).output, x), loss)
