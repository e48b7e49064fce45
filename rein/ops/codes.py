"""Codebooks: the nearest code, how many codes are in use, and gradients past a choice."""

from __future__ import annotations

import torch
from torch import Tensor


def straight_through(value: Tensor, surrogate: Tensor) -> Tensor:
    """Gives `value` exactly, with the gradient of `surrogate`.

    Bengio et al. (2013), arXiv:1308.3432.

    Args:
        value: [...].
        surrogate: of the same shape.
    """
    return value.detach() + (surrogate - surrogate.detach())


@torch.no_grad()
def nearest_code(x: Tensor, codebook: Tensor) -> Tensor:
    """Finds the code with the least squared distance; the first, if several have it.

    van den Oord et al. (2017), arXiv:1711.00937, eq. 1.

    Args:
        x: [..., D].
        codebook: [K, D].

    Returns:
        [...] int64 in 0 .. K - 1.
    """
    # |x|^2 is the same for all codes.
    distance = codebook.square().sum(-1) - 2 * x @ codebook.T
    return distance.argmin(-1)


@torch.no_grad()
def code_perplexity(codes: Tensor, num_codes: int) -> Tensor:
    """Gives the number of codes that are in use, each counted by its share: exp of the entropy of their frequencies.

    Args:
        codes: [...] int64 in 0 .. num_codes - 1.
        num_codes: K.

    Returns:
        A scalar in 1 .. K.
    """
    counts = torch.bincount(codes.flatten(), minlength=num_codes).to(torch.get_default_dtype())
    frequency = counts / counts.sum()
    return torch.special.entr(frequency).sum().exp()


def categorical_kl(logits: Tensor, prior_logits: Tensor | None = None) -> Tensor:
    """KL between categorical distributions, over the last dimension.

    Args:
        logits: [..., K] of the first, up to a constant.
        prior_logits: [..., K] of the second; None is uniform.

    Returns:
        [...] in nats; at most log K for a uniform second one.
    """
    log_probability = logits.log_softmax(-1)
    # log_softmax of zeros is that of a uniform one
    prior = torch.zeros_like(logits) if prior_logits is None else prior_logits
    return (log_probability.exp() * (log_probability - prior.log_softmax(-1))).sum(-1)
