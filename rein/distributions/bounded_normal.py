"""Normals kept in an interval by clipping (mass on the bounds) or by truncation (no mass outside)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.special import log_ndtr, ndtr

from rein.distributions.base import Distribution, LocationScale, Shape, sum_event
from rein.distributions.bounds import Bound, Bounds, as_bounds
from rein.distributions.normal import HALF_LOG_TWO_PI, DiagNormal
from rein.distributions.normal_interval import inverse_log_ndtr, log_interval_mass, log_pdf, pdf


class _BoundedNormal(LocationScale):
    """Independent normals together with the interval that they are brought into."""

    def __init__(
        self,
        loc: Tensor,
        scale: Tensor | float,
        low: Bound | Bounds = -1.0,
        high: Bound = 1.0,
        *,
        event_ndims: int = 1,
    ) -> None:
        super().__init__(loc, scale, event_ndims)
        self.bounds = as_bounds(low, high)

    @property
    def settings(self) -> dict[str, Any]:
        """Constructor arguments that are not batched parameters."""
        return {"low": self.bounds, "event_ndims": self.event_ndims}

    @property
    def base(self) -> Distribution:
        """The normals without bounds."""
        return DiagNormal(self.loc, self.scale, event_ndims=self.event_ndims)

    @property
    def mode(self) -> Tensor:
        """[batch, event] the mode of the normal, moved into the interval."""
        return self.bounds.clamp(self.loc)

    def standard_bounds(self) -> tuple[Tensor, Tensor]:
        """Returns the bounds in units of `scale` from `loc`, [batch, event] each."""
        return (self.bounds.low - self.loc) / self.scale, (self.bounds.high - self.loc) / self.scale


class ClippedNormal(_BoundedNormal):
    """Independent normals clipped to [low, high], so that each bound has a probability of its own.

    Densities and entropy are with respect to length inside the interval plus counting at its two ends.

    Args:
        loc: [batch, event] means before clipping.
        scale: standard deviations before clipping, broadcast against `loc`.
        low: lower bounds, or the `Bounds` of both sides.
        high: upper bounds.
        event_ndims: how many of the last dimensions make one event.
    """

    @property
    def mean(self) -> Tensor:
        """[batch, event] expected value after clipping."""
        a, b = self.standard_bounds()
        mass, first, _ = self.inside_moments()
        inside = self.loc * mass + self.scale * first
        return self.bounds.low * ndtr(a) + self.bounds.high * ndtr(-b) + inside

    @property
    def stddev(self) -> Tensor:
        """[batch, event] standard deviation after clipping."""
        a, b = self.standard_bounds()
        mass, first, second = self.inside_moments()
        shift = (self.mean - self.loc) / self.scale
        # In standard units around the mean: the two ends, then the integral of (z - shift)^2 inside.
        ends = (a - shift).square() * ndtr(a) + (b - shift).square() * ndtr(-b)
        inside = second - 2.0 * shift * first + shift.square() * mass
        return (ends + inside).clamp_min(0.0).sqrt() * self.scale

    def inside_moments(self) -> tuple[Tensor, Tensor, Tensor]:
        """Returns the integrals of 1, z and z^2 inside the interval, z = (x - loc) / scale, [batch, event] each."""
        a, b = self.standard_bounds()
        mass, at_a, at_b = _mass(a, b), pdf(a), pdf(b)
        return mass, at_a - at_b, mass + a * at_a - b * at_b

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Returns samples, [sample_shape, batch, event]; those on a bound pass no gradient."""
        return self.bounds.clamp(self.normal_rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Returns the log density inside, the log-probability of the end at a bound, [sample_shape, batch]."""
        a, b = self.standard_bounds()
        inside = log_pdf((value - self.loc) / self.scale) - self.scale.log()
        elementwise = torch.where(
            value <= self.bounds.low,
            log_ndtr(a),
            torch.where(value >= self.bounds.high, log_ndtr(-b), inside),
        )
        return sum_event(elementwise, self.event_ndims)

    def entropy(self) -> Tensor:
        """Returns the entropy in nats, [batch]."""
        a, b = self.standard_bounds()
        mass, _, second = self.inside_moments()
        ends = ndtr(a) * log_ndtr(a) + ndtr(-b) * log_ndtr(-b)
        inside = mass * (self.scale.log() + HALF_LOG_TWO_PI) + 0.5 * second
        return sum_event(inside - ends, self.event_ndims)


class TruncatedNormal(_BoundedNormal):
    """Independent normals conditioned on lying in [low, high].

    Stays accurate when the interval is far out in a tail or much narrower than `scale`.

    Args:
        loc: [batch, event] means before truncation.
        scale: standard deviations before truncation, broadcast against `loc`.
        low: lower bounds, or the `Bounds` of both sides.
        high: upper bounds.
        event_ndims: how many of the last dimensions make one event.
    """

    @property
    def mean(self) -> Tensor:
        """[batch, event] expected value."""
        first, _ = self.standard_moments()
        return self.bounds.clamp(self.loc + self.scale * first)

    @property
    def stddev(self) -> Tensor:
        """[batch, event] standard deviation."""
        first, second = self.standard_moments()
        return (second - first.square()).clamp_min(0.0).sqrt() * self.scale

    def standard_moments(self) -> tuple[Tensor, Tensor]:
        """Returns E[z] and E[z^2] of z = (x - loc) / scale, [batch, event] each."""
        a, b = self.standard_bounds()
        log_mass = log_interval_mass(a, b)
        at_a, at_b = (log_pdf(a) - log_mass).exp(), (log_pdf(b) - log_mass).exp()
        return at_a - at_b, 1.0 + a * at_a - b * at_b

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Returns reparameterised samples, [sample_shape, batch, event]."""
        a, b = self.standard_bounds()
        with torch.no_grad():
            u = torch.rand(sample_shape + self.loc.shape, dtype=self.loc.dtype, device=self.loc.device)
            tiny = torch.finfo(u.dtype).tiny
            log_u, log_rest = u.clamp_min(tiny).log(), torch.log1p(-u)
            # Probabilities keep their digits in the lower tail only, so mirror intervals that lie above the mean.
            mirrored = a + b > 0.0
            lower = torch.where(mirrored, -b, a)
            log_share = torch.where(mirrored, log_rest, log_u)
            log_cdf = torch.logaddexp(log_ndtr(lower), log_interval_mass(a, b) + log_share)
            z = inverse_log_ndtr(log_cdf)
            z = torch.where(mirrored, -z, z)
            z = torch.minimum(torch.maximum(z, a), b)
        if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad):
            # The share u of the mass below z stays fixed: pdf(z) dz = (1 - u) pdf(a) da + u pdf(b) db.
            weight_a = (log_rest + log_pdf(a) - log_pdf(z)).exp().detach()
            weight_b = (log_u + log_pdf(b) - log_pdf(z)).exp().detach()
            z = z + weight_a * (a - a.detach()) + weight_b * (b - b.detach())
        return self.bounds.clamp(self.loc + self.scale * z)

    def log_prob(self, value: Tensor) -> Tensor:
        """Returns the log density, [sample_shape, batch]; minus infinity outside of the interval."""
        a, b = self.standard_bounds()
        z = (value - self.loc) / self.scale
        elementwise = log_pdf(z) - self.scale.log() - log_interval_mass(a, b)
        inside = (value >= self.bounds.low) & (value <= self.bounds.high)
        return sum_event(torch.where(inside, elementwise, -torch.inf), self.event_ndims)

    def entropy(self) -> Tensor:
        """Returns the entropy in nats, [batch]."""
        a, b = self.standard_bounds()
        _, second = self.standard_moments()
        elementwise = self.scale.log() + log_interval_mass(a, b) + HALF_LOG_TWO_PI + 0.5 * second
        return sum_event(elementwise, self.event_ndims)


def _mass(a: Tensor, b: Tensor) -> Tensor:
    """Returns the probability of a standard normal between a and b, from the smaller of the two tails."""
    mirrored = a + b > 0.0
    return torch.where(mirrored, ndtr(-a) - ndtr(-b), ndtr(b) - ndtr(a))
