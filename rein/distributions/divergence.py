"""Kullback-Leibler divergences, in closed form where there is one and by sampling otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.special import log_ndtr, ndtr

from rein import nest
from rein.distributions.base import Distribution, LocationScale, sum_event
from rein.distributions.beta import Beta
from rein.distributions.bounded_normal import ClippedNormal, TruncatedNormal
from rein.distributions.categorical import (
    Categorical,
    MultiCategorical,
    OneHotCategorical,
    OneHotCategoricalGumbelSoftmax,
    OneHotCategoricalStraightThrough,
)
from rein.distributions.deterministic import Deterministic
from rein.distributions.normal import DiagNormal, SquashedNormal
from rein.distributions.normal_interval import log_interval_mass
from rein.nest import Nest


def kl_divergence(p: Nest, q: Nest, num_samples: int = 16) -> Tensor:
    """Returns KL(p || q) in nats, [batch], summed over the (independent) distributions of a nest.

    Args:
        p: distribution or nest of them.
        q: the same structure.
        num_samples: how many samples of p are averaged where no closed form is known (mixtures, two different kinds).
            The gradient of the estimate is unbiased as well.
    """
    if isinstance(p, Distribution):
        return _kl(p, q, num_samples)
    nest.assert_same_structure(p, q)
    pairs = zip(nest.flatten(p), nest.flatten(q), strict=True)
    return torch.stack([_kl(*pair, num_samples) for pair in pairs]).sum(0)


def _kl(p: Distribution, q: Distribution, num_samples: int) -> Tensor:
    closed_form = _CLOSED_FORMS.get(type(p))
    if closed_form is not None and closed_form is _CLOSED_FORMS.get(type(q)):
        return closed_form(p, q)
    return _estimated(p, q, num_samples)


def _estimated(p: Distribution, q: Distribution, num_samples: int) -> Tensor:
    if num_samples < 1:
        raise ValueError(f"num_samples must be at least 1, got {num_samples}")
    sample = p.rsample((num_samples,)) if p.has_rsample else p.sample((num_samples,))
    log_p = p.log_prob(sample)
    log_ratio = log_p - q.log_prob(sample)
    if not p.has_rsample:
        # Adds nothing to the value; its gradient is that of the sampling probabilities.
        log_ratio = log_ratio + log_ratio.detach() * (log_p - log_p.detach())
    return log_ratio.mean(0)


def _normal(p: LocationScale, q: LocationScale) -> Tensor:
    ratio = p.scale / q.scale
    distance = (p.loc - q.loc) / q.scale
    elementwise = 0.5 * (ratio.square() + distance.square() - 1.0) - ratio.log()
    return sum_event(elementwise, p.event_ndims)


def _squashed(p: SquashedNormal, q: SquashedNormal) -> Tensor:
    # The divergence does not change under a map that both share.
    _check_same_bounds(p, q)
    return _normal(p, q)


def _clipped(p: ClippedNormal, q: ClippedNormal) -> Tensor:
    _check_same_bounds(p, q)
    (a, b), (c, d) = p.standard_bounds(), q.standard_bounds()
    ends = ndtr(a) * (log_ndtr(a) - log_ndtr(c)) + ndtr(-b) * (log_ndtr(-b) - log_ndtr(-d))
    mass, first, second = p.inside_moments()
    inside = _quadratic_gap(p, q, mass, first, second)
    return sum_event(ends + inside, p.event_ndims)


def _truncated(p: TruncatedNormal, q: TruncatedNormal) -> Tensor:
    _check_same_bounds(p, q)
    first, second = p.standard_moments()
    gap = _quadratic_gap(p, q, torch.ones_like(first), first, second)
    log_mass_p = log_interval_mass(*p.standard_bounds())
    log_mass_q = log_interval_mass(*q.standard_bounds())
    return sum_event(gap + log_mass_q - log_mass_p, p.event_ndims)


def _quadratic_gap(p: LocationScale, q: LocationScale, mass: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Returns the integral of p (log N_p - log N_q), from the moments of the standardised variable of p."""
    ratio = p.scale / q.scale
    distance = (p.loc - q.loc) / q.scale
    # The standardised variable of q is ratio * z + distance.
    squared = ratio.square() * second + 2.0 * ratio * distance * first + distance.square() * mass
    return 0.5 * (squared - second) - mass * ratio.log()


def _beta(p: Beta, q: Beta) -> Tensor:
    _check_same_bounds(p, q)
    p1, p0, q1, q0 = p.concentration1, p.concentration0, q.concentration1, q.concentration0
    elementwise = (
        q.log_normalizer()
        - p.log_normalizer()
        + (p1 - q1) * torch.digamma(p1)
        + (p0 - q0) * torch.digamma(p0)
        + (q1 + q0 - p1 - p0) * torch.digamma(p1 + p0)
    )
    return sum_event(elementwise, p.event_ndims)


def _categorical(p: Categorical, q: Categorical) -> Tensor:
    log_p = p.log_probs
    difference = torch.where(log_p == -torch.inf, 0.0, log_p - q.log_probs)
    return (log_p.exp() * difference).sum(-1)


def _multi_categorical(p: MultiCategorical, q: MultiCategorical) -> Tensor:
    return _categorical(p.table, q.table).sum(-1)


def _one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical(p.choice, q.choice)


def _deterministic(p: Deterministic, q: Deterministic) -> Tensor:
    return -q.log_prob(p.value)


def _check_same_bounds(p: Any, q: Any) -> None:
    if not p.bounds.same_as(q.bounds):
        raise ValueError(f"the divergence is infinite between different bounds: {p.bounds} and {q.bounds}")


_CLOSED_FORMS: dict[type[Distribution], Callable[[Any, Any], Tensor]] = {
    DiagNormal: _normal,
    SquashedNormal: _squashed,
    ClippedNormal: _clipped,
    TruncatedNormal: _truncated,
    Beta: _beta,
    Categorical: _categorical,
    MultiCategorical: _multi_categorical,
    OneHotCategorical: _one_hot,
    OneHotCategoricalStraightThrough: _one_hot,
    OneHotCategoricalGumbelSoftmax: _one_hot,
    Deterministic: _deterministic,
}
