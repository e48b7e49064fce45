"""Divergences between Gaussians with independent dimensions, given by means and log-variances."""

from __future__ import annotations

from torch import Tensor


def standard_normal_kl(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL(N(mean, e^log_variance) || N(0, I)), summed over the last dimension.

    Kingma & Welling (2014), appendix B.

    Args:
        mean: [..., D].
        log_variance: [..., D].

    Returns:
        [...] in nats.
    """
    return 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(-1)


def residual_gaussian_kl(mean: Tensor, log_variance: Tensor, prior_log_variance: Tensor) -> Tensor:
    """KL(N(p + mean, e^(w + log_variance)) || N(p, e^w)), summed over the last dimension, whatever p is.

    Args:
        mean: [..., D] of the first Gaussian, less that of the second.
        log_variance: [..., D] of the first Gaussian, less that of the second.
        prior_log_variance: [..., D] w, of the second Gaussian.

    Returns:
        [...] in nats.
    """
    return 0.5 * (mean.square() / prior_log_variance.exp() + log_variance.exp() - 1 - log_variance).sum(-1)
