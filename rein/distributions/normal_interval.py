"""Functions of the standard normal that keep their digits in the tails and on narrow intervals."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.special import log_ndtr, ndtri

_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_NARROW = 0.1
_NEWTON_STEPS = 3


def log_pdf(z: Tensor) -> Tensor:
    """Returns the log density of the standard normal at `z`."""
    return -0.5 * z.square() - _HALF_LOG_TWO_PI


def pdf(z: Tensor) -> Tensor:
    """Returns the density of the standard normal at `z`."""
    return log_pdf(z).exp()


def log_interval_mass(a: Tensor, b: Tensor) -> Tensor:
    """Returns the log-probability that a standard normal lies between `a` and `b` (a < b).

    Narrow intervals use the density in the middle with a second-order correction, because the difference of two almost
    equal probabilities has no digits left; wide ones that difference, in the lower tail.
    """
    width = b - a
    middle = 0.5 * (a + b)
    narrow = width * (1.0 + middle.abs()) < _NARROW
    correction = torch.where(narrow, width.square() * (middle.square() - 1.0) / 24.0, 0.0)
    by_density = log_pdf(middle) + width.log() + torch.log1p(correction)

    mirrored = middle > 0.0
    lower = torch.where(mirrored, -b, a)
    upper = torch.where(mirrored, -a, b)
    # Any wide interval will do for the entries that the other branch serves; it keeps their gradient finite.
    upper = torch.where(narrow, lower.detach() + 1.0, upper)
    log_upper = log_ndtr(upper)
    by_difference = log_upper + _log1mexp(log_upper - log_ndtr(lower))
    return torch.where(narrow, by_density, by_difference)


def inverse_log_ndtr(log_probability: Tensor) -> Tensor:
    """Returns z with log P(Z < z) = `log_probability`, for any finite one; no gradient.

    Newton's method on log_ndtr, which is concave and nearly quadratic in the tail, from the asymptotic tail
    quantile.
    """
    y = log_probability.clamp_max(-torch.finfo(log_probability.dtype).tiny)
    in_tail = y < -5.0
    far = (-2.0 * y).clamp_min(10.0)
    z = torch.where(in_tail, -(far - (far * 2.0 * math.pi).log()).sqrt(), ndtri(y.exp()))
    for _ in range(_NEWTON_STEPS):
        log_cdf = log_ndtr(z)
        step = (log_cdf - y) * (log_cdf - log_pdf(z)).exp()
        z = torch.where(in_tail, z - step, z)
    return z


def _log1mexp(x: Tensor) -> Tensor:
    """Returns log(1 - exp(-x)) for x > 0."""
    small = x < math.log(2.0)
    near = torch.where(small, x, 1.0)
    away = torch.where(small, 1.0, x)
    return torch.where(small, (-torch.expm1(-near)).log(), torch.log1p(-(-away).exp()))
