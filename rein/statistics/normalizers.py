"""Normalization of nests of tensors by their running moments: over a window, exponential, or adaptive."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from rein import nest
from rein.config import configurable
from rein.nest import Nest
from rein.runtime import Scheduler, summary
from rein.specs import TensorSpec
from rein.statistics.batches import Leaf, Values, as_dtype, batch_moments, is_small_on_host, leaves_of
from rein.statistics.frozen import are_statistics_frozen
from rein.statistics.host_normalizer import HostNormalizer, can_normalize_on_host
from rein.statistics.moments import AdaptiveMoments, DecayingMoments, EMMoments, Moments, WindowMoments


class Normalizer(nn.Module):
    """Shifts and scales each element of a nest by running moments, taken over all batch dimensions.

    Before any update it changes nothing. The state is in buffers, so it is saved and moved with the module that holds the
    normalizer. Gradients flow to the tensor that is normalized, not to the moments.
    """

    def __init__(
        self,
        tensor_spec: Nest,
        moments: Moments,
        auto_update: bool = True,
        zero_mean: bool = True,
        unit_std: bool = False,
        variance_epsilon: float = 1e-10,
        debug_summaries: bool = False,
        name: str = "Normalizer",
    ):
        """Starts without data.

        Args:
            tensor_spec: nest of TensorSpec, without batch dimensions.
            moments: how batches are combined, variances included; of the shapes of the leaves.
            auto_update: whether `normalize` takes in what it normalizes; if not, call `update`.
            zero_mean: whether to subtract the mean.
            unit_std: whether to take the standard deviation for 1, so that only the mean is subtracted. Otherwise the
                divisor is the standard deviation, or without `zero_mean` the root of the mean square.
            variance_epsilon: added to what the root is taken of.
            debug_summaries: whether each update records the moments.
            name: scope of the summaries.
        """
        super().__init__()
        if variance_epsilon < 0.0:
            raise ValueError(f"variance_epsilon must not be negative, got {variance_epsilon}")
        if unit_std and not zero_mean:
            raise ValueError(f"{name}: unit_std=True with zero_mean=False would change nothing: set one of them")
        self._tensor_spec = tensor_spec
        self._leaves = leaves_of(tensor_spec)
        self._structure = nest.structure_of(tensor_spec)
        self._moments = moments
        self._auto_update = auto_update
        self._zero_mean = zero_mean
        self._unit_std = unit_std
        self._variance_epsilon = variance_epsilon
        self._debug_summaries = debug_summaries
        self._name = name
        # As they come, integers among them.
        self._dtypes = [spec.dtype for spec in nest.flatten(tensor_spec)]
        self._host_normalizer: HostNormalizer | None = None

    @property
    def name(self) -> str:
        """Scope of the summaries."""
        return self._name

    def update(self, tensor: Nest) -> None:
        """Takes in one batch; an empty one changes nothing, nor does one inside of `frozen_statistics`.

        Args:
            tensor: nest of tensors, [..., *spec.shape] with any batch dimensions, none included.
        """
        if are_statistics_frozen():
            return
        batch = batch_moments(self._flat(tensor), self._leaves, with_variance=True)
        if batch is None:
            return
        self._moments.update(*batch)
        if self._debug_summaries and summary.should_record_summaries():
            self._summarize()

    def updated_by(self, tensor: Nest) -> Self:
        """A copy that has taken in one more batch, for those who must not change this one yet; see `update`."""
        normalizer = copy.deepcopy(self)
        normalizer.update(tensor)
        return normalizer

    def normalize(self, tensor: Nest, clip_value: float = -1.0) -> Nest:
        """Returns the tensors normalized, after taking them in if the normalizer updates itself.

        Args:
            tensor: nest of tensors, [..., *spec.shape].
            clip_value: if > 0, results are limited to [-clip_value, clip_value].

        Returns:
            A nest of tensors of the shapes of `tensor`.
        """
        if self._auto_update:
            self.update(tensor)
        flat = zip(self._leaves, self._flat(tensor), strict=True)
        return self._structure.unflatten([self._normalize_leaf(i, *each, clip_value) for i, each in enumerate(flat)])

    def forward(self, tensor: Nest, clip_value: float = -1.0) -> Nest:
        """Does the same as `normalize`.

        Args:
            tensor: nest of tensors, [..., *spec.shape].
            clip_value: if > 0, results are limited to [-clip_value, clip_value].
        """
        return self.normalize(tensor, clip_value)

    def on_host(self, clip_value: float = -1.0) -> HostNormalizer | None:
        """Returns what does the same to single arrays on the host, one after the other, with these moments; None: nothing.

        Args:
            clip_value: if > 0, results are limited to [-clip_value, clip_value].
        """
        moments, host = self._moments, self._host_normalizer
        if self._unit_std or self._debug_summaries or len(self._leaves) != 1:
            return None
        if not isinstance(moments, DecayingMoments) or not can_normalize_on_host(moments, self._dtypes[0]):
            return None
        if host is None or not host.fits(moments, clip_value):
            host = HostNormalizer(moments, self._zero_mean, self._variance_epsilon, float(clip_value))
            self._host_normalizer = host
        return host

    def mean(self) -> Nest:
        """Returns the running means, a nest of tensors of the shapes of the spec; 0 before any update."""
        means = [self._moments.mean(i).to(leaf.dtype, copy=True) for i, leaf in enumerate(self._leaves)]
        return nest.pack_sequence_as(self._tensor_spec, means)

    def std(self) -> Nest:
        """Returns the running standard deviations, a nest like `mean`; 1 before any update."""
        stds = [self._moments.variance(i).sqrt().to(leaf.dtype) for i, leaf in enumerate(self._leaves)]
        return nest.pack_sequence_as(self._tensor_spec, stds)

    def reset(self) -> None:
        """Forgets all data."""
        self._moments.reset()

    def _flat(self, tensor: Nest) -> list[Tensor]:
        """The tensors of a nest that has the structure of the spec."""
        try:
            flat: list[Any] = self._structure.flatten_up_to(tensor)
        except ValueError:
            nest.assert_same_structure(tensor, self._tensor_spec)
            raise
        if not all(isinstance(leaf, Tensor) for leaf in flat):
            nest.assert_same_structure(tensor, self._tensor_spec)
        return flat

    def _normalize_leaf(self, index: int, leaf: Leaf, x: Tensor, clip_value: float) -> Tensor:
        dtype = x.dtype if x.is_floating_point() else leaf.dtype
        is_small = is_small_on_host(x)
        values: Values = x.numpy() if is_small else x.to(dtype)
        mean: Values = self._moments.mean(index)
        mean = mean.numpy() if is_small else mean
        result = values - as_dtype(mean, dtype) if self._zero_mean else values
        if not self._unit_std:
            variance: Values = self._moments.variance(index)
            variance = variance.numpy() if is_small else variance
            power = variance if self._zero_mean else variance + mean * mean
            result = result * as_dtype((power + self._variance_epsilon) ** -0.5, dtype)
        if clip_value > 0.0:
            result = result.clip(-clip_value, clip_value)
        return torch.from_numpy(np.asarray(result)) if is_small else result

    def _summarize(self) -> None:
        with summary.scope(self._name):
            for i, leaf in enumerate(self._leaves):
                prefix = f"{leaf.path}." if leaf.path else ""
                mean, variance = self._moments.mean(i), self._moments.variance(i)
                if mean.numel() == 0:
                    continue
                summary.scalar(f"{prefix}mean", mean.mean())
                summary.scalar(f"{prefix}std", variance.sqrt().mean())
                if mean.numel() > 1:
                    summary.scalar(f"{prefix}mean.min", mean.min())
                    summary.scalar(f"{prefix}mean.max", mean.max())
                    summary.scalar(f"{prefix}std.min", variance.min().sqrt())
                    summary.scalar(f"{prefix}std.max", variance.max().sqrt())


@configurable
class WindowNormalizer(Normalizer):
    """Normalizes by the moments of the last batches, each weighing the same."""

    def __init__(
        self,
        tensor_spec: Nest,
        window_size: int = 1000,
        auto_update: bool = True,
        zero_mean: bool = True,
        unit_std: bool = False,
        variance_epsilon: float = 1e-10,
        debug_summaries: bool = False,
        name: str = "WindowNormalizer",
    ):
        """Starts without data.

        Args:
            tensor_spec: nest of TensorSpec, without batch dimensions.
            window_size: number of updates that count.
            auto_update: see `Normalizer`, as for all that follow.
            zero_mean: whether to subtract the mean.
            unit_std: whether to take the standard deviation for 1, and only subtract the mean.
            variance_epsilon: added to what the root is taken of.
            debug_summaries: whether each update records the moments.
            name: scope of the summaries.
        """
        moments = WindowMoments(_shapes(tensor_spec), True, window_size)
        super().__init__(
            tensor_spec, moments, auto_update, zero_mean, unit_std, variance_epsilon, debug_summaries, name
        )


@configurable
class EMNormalizer(Normalizer):
    """Normalizes by exponential moving moments."""

    def __init__(
        self,
        tensor_spec: Nest,
        update_rate: float | Scheduler = 1e-3,
        auto_update: bool = True,
        zero_mean: bool = True,
        unit_std: bool = False,
        variance_epsilon: float = 1e-10,
        debug_summaries: bool = False,
        name: str = "EMNormalizer",
    ):
        """Starts without data.

        Args:
            tensor_spec: nest of TensorSpec, without batch dimensions.
            update_rate: weight of each new batch, in (0, 1].
            auto_update: see `Normalizer`, as for all that follow.
            zero_mean: whether to subtract the mean.
            unit_std: whether to take the standard deviation for 1, and only subtract the mean.
            variance_epsilon: added to what the root is taken of.
            debug_summaries: whether each update records the moments.
            name: scope of the summaries.
        """
        moments = EMMoments(_shapes(tensor_spec), True, update_rate)
        super().__init__(
            tensor_spec, moments, auto_update, zero_mean, unit_std, variance_epsilon, debug_summaries, name
        )


@configurable
class AdaptiveNormalizer(Normalizer):
    """Normalizes by moments over a window that grows with the data: about the last T / speed of T updates."""

    def __init__(
        self,
        tensor_spec: Nest,
        speed: float = 8.0,
        auto_update: bool = True,
        zero_mean: bool = True,
        unit_std: bool = False,
        variance_epsilon: float = 1e-10,
        debug_summaries: bool = False,
        name: str = "AdaptiveNormalizer",
    ):
        """Starts without data.

        Args:
            tensor_spec: nest of TensorSpec, without batch dimensions.
            speed: how fast old updates are forgotten.
            auto_update: see `Normalizer`, as for all that follow.
            zero_mean: whether to subtract the mean.
            unit_std: whether to take the standard deviation for 1, and only subtract the mean.
            variance_epsilon: added to what the root is taken of.
            debug_summaries: whether each update records the moments.
            name: scope of the summaries.
        """
        moments = AdaptiveMoments(_shapes(tensor_spec), True, speed)
        super().__init__(
            tensor_spec, moments, auto_update, zero_mean, unit_std, variance_epsilon, debug_summaries, name
        )


@configurable
class ScalarWindowNormalizer(WindowNormalizer):
    """Normalizes a scalar by the moments of the last batches."""

    def __init__(
        self,
        window_size: int = 1000,
        auto_update: bool = True,
        zero_mean: bool = True,
        unit_std: bool = False,
        variance_epsilon: float = 1e-10,
        debug_summaries: bool = False,
        name: str = "ScalarWindowNormalizer",
    ):
        """Starts without data.

        Args:
            window_size: number of updates that count.
            auto_update: see `Normalizer`, as for all that follow.
            zero_mean: whether to subtract the mean.
            unit_std: whether to take the standard deviation for 1, and only subtract the mean.
            variance_epsilon: added to what the root is taken of.
            debug_summaries: whether each update records the moments.
            name: scope of the summaries.
        """
        super().__init__(
            TensorSpec(()), window_size, auto_update, zero_mean, unit_std, variance_epsilon, debug_summaries, name
        )


@configurable
class ScalarEMNormalizer(EMNormalizer):
    """Normalizes a scalar by exponential moving moments."""

    def __init__(
        self,
        update_rate: float | Scheduler = 1e-3,
        auto_update: bool = True,
        zero_mean: bool = True,
        unit_std: bool = False,
        variance_epsilon: float = 1e-10,
        debug_summaries: bool = False,
        name: str = "ScalarEMNormalizer",
    ):
        """Starts without data.

        Args:
            update_rate: weight of each new batch, in (0, 1].
            auto_update: see `Normalizer`, as for all that follow.
            zero_mean: whether to subtract the mean.
            unit_std: whether to take the standard deviation for 1, and only subtract the mean.
            variance_epsilon: added to what the root is taken of.
            debug_summaries: whether each update records the moments.
            name: scope of the summaries.
        """
        super().__init__(
            TensorSpec(()), update_rate, auto_update, zero_mean, unit_std, variance_epsilon, debug_summaries, name
        )


@configurable
class ScalarAdaptiveNormalizer(AdaptiveNormalizer):
    """Normalizes a scalar by moments over a window that grows with the data."""

    def __init__(
        self,
        speed: float = 8.0,
        auto_update: bool = True,
        zero_mean: bool = True,
        unit_std: bool = False,
        variance_epsilon: float = 1e-10,
        debug_summaries: bool = False,
        name: str = "ScalarAdaptiveNormalizer",
    ):
        """Starts without data.

        Args:
            speed: how fast old updates are forgotten.
            auto_update: see `Normalizer`, as for all that follow.
            zero_mean: whether to subtract the mean.
            unit_std: whether to take the standard deviation for 1, and only subtract the mean.
            variance_epsilon: added to what the root is taken of.
            debug_summaries: whether each update records the moments.
            name: scope of the summaries.
        """
        super().__init__(
            TensorSpec(()), speed, auto_update, zero_mean, unit_std, variance_epsilon, debug_summaries, name
        )


def _shapes(tensor_spec: Nest) -> list[torch.Size]:
    return [leaf.shape for leaf in leaves_of(tensor_spec)]
