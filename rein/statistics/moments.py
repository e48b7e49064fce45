"""Running mean and variance of several tensors at once, updated batch by batch.

Variances are kept as central moments and merged exactly (Chan et al., 1983, "Algorithms for Computing the Sample
Variance"), never as a difference of two large squares; all sums are in double precision, because an average that moves
by 1e-4 per update stands still in single precision.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Size, Tensor, nn
from torch.autograd.graph import increment_version

from rein.runtime import Scheduler, as_scheduler
from rein.runtime.schedules import is_number
from rein.statistics.batches import Values
from rein.statistics.host_scalar import HostScalar

_WIDE = torch.float64


class Moments(nn.Module, ABC):
    """Estimates of the mean and, if wanted, the population variance of N tensors."""

    def __init__(self, shapes: Sequence[Size], track_variance: bool):
        """Starts without data: mean 0 and variance 1.

        Args:
            shapes: of the N tensors.
            track_variance: whether to estimate variances too.
        """
        super().__init__()
        self.shapes = [torch.Size(shape) for shape in shapes]
        self.track_variance = track_variance
        self.updates = HostScalar(0)

    @abstractmethod
    def update(self, means: Sequence[Values], variances: Sequence[Values]) -> None:
        """Takes in one batch.

        Args:
            means: N tensors or arrays, means over the batch, double precision.
            variances: N of the same, population variances over the batch; empty if they are not tracked.
        """

    @abstractmethod
    def mean(self, index: int) -> Tensor:
        """Returns the estimated mean of one tensor, in double precision.

        Args:
            index: which tensor.
        """

    @abstractmethod
    def variance(self, index: int) -> Tensor:
        """Returns the estimated population variance of one tensor, in double precision.

        Args:
            index: which tensor.
        """

    @abstractmethod
    def reset(self) -> None:
        """Forgets all data."""

    def _tensor(self, kind: str, index: int) -> Tensor:
        found = self._buffers[f"{kind}_{index}"]
        assert found is not None
        return found

    def _register(self, kind: str, index: int, tensor: Tensor) -> None:
        self.register_buffer(f"{kind}_{index}", tensor)


class DecayingMoments(Moments):
    """Moments in which each batch pulls the estimate by a rate; divided by the total weight, so never biased to 0."""

    def __init__(self, shapes: Sequence[Size], track_variance: bool):
        """Starts without data.

        Args:
            shapes: of the N tensors.
            track_variance: whether to estimate variances too.
        """
        super().__init__(shapes, track_variance)
        self.mass = HostScalar(0.0)
        for i, shape in enumerate(self.shapes):
            self._register("mean", i, torch.zeros(shape, dtype=_WIDE))
            if track_variance:
                self._register("variance", i, torch.ones(shape, dtype=_WIDE))

    @abstractmethod
    def rate(self, updates: int) -> float:
        """Returns the weight of the next batch, in (0, 1].

        Args:
            updates: batches that were taken in.
        """

    def update(self, means: Sequence[Values], variances: Sequence[Values]) -> None:  # noqa: D102
        updates, mass = self.updates.get(), self.mass.get()
        rate = self.rate(updates)
        mass += rate * (1.0 - mass)
        # The weight of the batch in an average whose weights sum to one; 1 at the first batch.
        weight = rate / mass
        for i, batch_mean in enumerate(means):
            mean = self._like(batch_mean, "mean", i)
            difference = batch_mean - mean
            mean += weight * difference
            if self.track_variance:
                variance = self._like(batch_mean, "variance", i)
                # In this form a weight of one leaves nothing of what was there, not even rounding.
                variance *= 1.0 - weight
                variance += weight * variances[i]
                variance += weight * (1.0 - weight) * difference * difference
        self.mass.set(mass)
        self.updates.set(updates + 1)

    def _like(self, values: Values, kind: str, index: int) -> Values:
        """A buffer to change in place: as it is, or as an array if `values` is one."""
        tensor = self._tensor(kind, index)
        if isinstance(values, Tensor):
            return tensor
        if not tensor.is_cpu:
            raise ValueError(f"the batch is on the host and the statistics are on {tensor.device}: move one of them")
        # Whoever looks out for changes of buffers learns of this one too.
        increment_version(tensor)
        return tensor.numpy()

    def mean(self, index: int) -> Tensor:  # noqa: D102
        return self._tensor("mean", index)

    def variance(self, index: int) -> Tensor:  # noqa: D102
        return self._tensor("variance", index)

    def reset(self) -> None:  # noqa: D102
        self.mass.set(0.0)
        self.updates.set(0)
        for i in range(len(self.shapes)):
            self._tensor("mean", i).zero_()
            if self.track_variance:
                self._tensor("variance", i).fill_(1.0)


class EMMoments(DecayingMoments):
    """Exponential moving moments."""

    def __init__(self, shapes: Sequence[Size], track_variance: bool, update_rate: float | Scheduler):
        """Starts without data.

        Args:
            shapes: of the N tensors.
            track_variance: whether to estimate variances too.
            update_rate: weight of each new batch, in (0, 1].
        """
        super().__init__(shapes, track_variance)
        self._update_rate = as_scheduler(update_rate)
        if is_number(update_rate):
            self.rate(0)

    def rate(self, updates: int) -> float:  # noqa: D102
        rate = self._update_rate()
        if not 0.0 < rate <= 1.0:
            raise ValueError(f"update_rate must be in (0, 1], got {rate}")
        return rate


class AdaptiveMoments(DecayingMoments):
    """Moments over about the last T / speed of T batches: the rate is speed / (t + speed) after t batches."""

    def __init__(self, shapes: Sequence[Size], track_variance: bool, speed: float):
        """Starts without data.

        Args:
            shapes: of the N tensors.
            track_variance: whether to estimate variances too.
            speed: 1 weighs all batches alike; larger forgets faster.
        """
        super().__init__(shapes, track_variance)
        if not speed > 0.0:
            raise ValueError(f"speed must be positive, got {speed}")
        self._speed = float(speed)

    def rate(self, updates: int) -> float:  # noqa: D102
        return self._speed / (updates + self._speed)


class WindowMoments(Moments):
    """Moments of the last W batches, each weighing the same.

    The window is kept in blocks of about sqrt(W) batches with their own moments: an update looks at one block and a read
    at all block moments, so both cost O(sqrt(W)), and since nothing is ever subtracted, no error builds up.
    """

    def __init__(self, shapes: Sequence[Size], track_variance: bool, window_size: int):
        """Starts without data.

        Args:
            shapes: of the N tensors.
            track_variance: whether to estimate variances too.
            window_size: W, number of batches.
        """
        super().__init__(shapes, track_variance)
        if window_size < 1:
            raise ValueError(f"window_size must be at least 1, got {window_size}")
        self._window = int(window_size)
        self._block = math.isqrt(self._window - 1) + 1
        blocks = -(-self._window // self._block)
        for i, shape in enumerate(self.shapes):
            self._register("ring_mean", i, torch.zeros((self._window, *shape), dtype=_WIDE))
            self._register("block_mean", i, torch.zeros((blocks, *shape), dtype=_WIDE))
            if track_variance:
                self._register("ring_variance", i, torch.zeros((self._window, *shape), dtype=_WIDE))
                # Sum over the block of squared distances from the block's mean.
                self._register("block_spread", i, torch.zeros((blocks, *shape), dtype=_WIDE))

    def update(self, means: Sequence[Values], variances: Sequence[Values]) -> None:  # noqa: D102
        updates = self.updates.get()
        slot = updates % self._window
        filled = min(updates + 1, self._window)
        block = slot // self._block
        rows = slice(block * self._block, min((block + 1) * self._block, filled))
        for i, batch_mean in enumerate(means):
            ring = self._tensor("ring_mean", i)
            ring[slot] = torch.as_tensor(batch_mean)
            mean = ring[rows].mean(dim=0)
            self._tensor("block_mean", i)[block] = mean
            if self.track_variance:
                ring_variance = self._tensor("ring_variance", i)
                ring_variance[slot] = torch.as_tensor(variances[i])
                within = ring_variance[rows].sum(dim=0)
                self._tensor("block_spread", i)[block] = within + (ring[rows] - mean).square().sum(dim=0)
        self.updates.set(updates + 1)

    def mean(self, index: int) -> Tensor:  # noqa: D102
        means = self._tensor("block_mean", index)
        filled = min(self.updates.get(), self._window)
        if filled == 0:
            return torch.zeros_like(means[0])
        return torch.tensordot(self._block_weights(filled, means), means, dims=1)

    def variance(self, index: int) -> Tensor:  # noqa: D102
        means = self._tensor("block_mean", index)
        filled = min(self.updates.get(), self._window)
        if filled == 0:
            return torch.ones_like(means[0])
        weights = self._block_weights(filled, means)
        centred = means - torch.tensordot(weights, means, dims=1)
        within = self._tensor("block_spread", index).sum(dim=0) / filled
        return within + torch.tensordot(weights, centred.square(), dims=1)

    def reset(self) -> None:  # noqa: D102
        self.updates.set(0)
        for buffer in self.buffers(recurse=False):
            buffer.zero_()

    def _block_weights(self, filled: int, like: Tensor) -> Tensor:
        """Returns the share of each block in the window, [blocks]."""
        starts = torch.arange(like.shape[0], device=like.device, dtype=_WIDE) * self._block
        return (filled - starts).clamp(0, self._block) / filled
