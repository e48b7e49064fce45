"""Beta distributions stretched onto an interval."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from rein.distributions.base import Distribution, Shape, broadcast, sum_event
from rein.distributions.bounds import Bound, Bounds, as_bounds


class Beta(Distribution):
    """Independent beta distributions, mapped from [0, 1] to [low, high].

    Args:
        concentration1: [batch, event] weight of the upper end, above 0.
        concentration0: [batch, event] weight of the lower end, above 0.
        low: lower bounds, or the `Bounds` of both sides.
        high: upper bounds.
        event_ndims: how many of the last dimensions make one event.
    """

    param_names = ("concentration1", "concentration0")

    def __init__(
        self,
        concentration1: Tensor,
        concentration0: Tensor,
        low: Bound | Bounds = 0.0,
        high: Bound = 1.0,
        *,
        event_ndims: int = 1,
    ) -> None:
        if concentration1.shape != concentration0.shape:
            concentration1, concentration0 = broadcast(concentration1, concentration0)
        self.concentration1 = concentration1
        self.concentration0 = concentration0
        self.bounds = as_bounds(low, high)
        self.event_ndims = event_ndims

    @property
    def settings(self) -> dict[str, Any]:
        """Constructor arguments that are not batched parameters."""
        return {"low": self.bounds, "event_ndims": self.event_ndims}

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of what `log_prob` gives for one sample."""
        shape = self.concentration1.shape
        return shape[: len(shape) - self.event_ndims]

    @property
    def event_shape(self) -> torch.Size:
        """Shape of one event."""
        shape = self.concentration1.shape
        return shape[len(shape) - self.event_ndims :]

    @property
    def mode(self) -> Tensor:
        """[batch, event] the point of highest density.

        Where the density is highest at both ends it is the end with the larger weight, and where both weights are
        equal and at most 1 the middle.
        """
        above1, above0 = self.concentration1 - 1.0, self.concentration0 - 1.0
        total = above1 + above0
        inner = above1 / torch.where(total > 0.0, total, 1.0)
        end = (above1 > above0).to(inner.dtype)
        outer = torch.where(above1 == above0, 0.5, end)
        has_peak = (above1 > 0.0) & (above0 > 0.0)
        return self._stretch(torch.where(has_peak, inner, outer))

    @property
    def mean(self) -> Tensor:
        """[batch, event] expected value."""
        return self._stretch(self.concentration1 / (self.concentration1 + self.concentration0))

    @property
    def stddev(self) -> Tensor:
        """[batch, event] standard deviation."""
        total = self.concentration1 + self.concentration0
        variance = self.concentration1 * self.concentration0 / (total.square() * (total + 1.0))
        return variance.sqrt() * (2.0 * self.bounds.half_width)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Returns reparameterised samples, [sample_shape, batch, event]."""
        log_ratio = _log_gamma_sample(self.concentration1, sample_shape) - _log_gamma_sample(
            self.concentration0, sample_shape
        )
        # sigmoid(x) = (1 + tanh(x / 2)) / 2
        return self.bounds.from_unit(torch.tanh(0.5 * log_ratio))

    def log_prob(self, value: Tensor) -> Tensor:
        """Returns the log density, [sample_shape, batch]; finite everywhere in the closed interval."""
        to_low, to_high = self.bounds.distances(value)
        c1, c0 = self.concentration1, self.concentration0
        # With the width w the density is (to_low/w)^(c1-1) (to_high/w)^(c0-1) / (w B(c1, c0)).
        log_width = self.bounds.log_half_width + math.log(2.0)
        elementwise = (
            (c1 - 1.0) * (to_low.log() - log_width) + (c0 - 1.0) * (to_high.log() - log_width) - self.log_normalizer()
        )
        return sum_event(elementwise, self.event_ndims) - self._log_volume()

    def entropy(self) -> Tensor:
        """Returns the entropy in nats, [batch]."""
        c1, c0 = self.concentration1, self.concentration0
        total = c1 + c0
        elementwise = (
            self.log_normalizer()
            - (c1 - 1.0) * torch.digamma(c1)
            - (c0 - 1.0) * torch.digamma(c0)
            + (total - 2.0) * torch.digamma(total)
        )
        return sum_event(elementwise, self.event_ndims) + self._log_volume()

    def log_normalizer(self) -> Tensor:
        """Returns the log of the beta function of the two weights, [batch, event]."""
        c1, c0 = self.concentration1, self.concentration0
        return torch.lgamma(c1) + torch.lgamma(c0) - torch.lgamma(c1 + c0)

    def _log_volume(self) -> Tensor | float:
        event_shape = self.event_shape
        return self.bounds.log_volume_scale(event_shape) + math.prod(event_shape) * math.log(2.0)

    def _stretch(self, unit: Tensor) -> Tensor:
        return self.bounds.from_unit(2.0 * unit - 1.0)


def _log_gamma_sample(concentration: Tensor, sample_shape: Shape) -> Tensor:
    """Returns the log of gamma samples, which cannot underflow however small the concentration is.

    Gamma(c) is Gamma(c + 1) times U^(1/c) for a uniform U.
    """
    c = concentration.expand(sample_shape + concentration.shape)
    u = torch.rand_like(c).clamp_min(torch.finfo(c.dtype).tiny)
    return torch._standard_gamma(c + 1.0).log() + u.log() / c
