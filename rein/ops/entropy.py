"""Entropies in closed form, in nats, and the targets that are commonly set for them."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_HALF_LOG_2_PI_E = 0.5 * math.log(2.0 * math.pi * math.e)


def categorical_entropy(logits: Tensor) -> Tensor:
    """Gives the entropy of categorical distributions; outcomes with logit -inf count as impossible.

    Args:
        logits: [..., N], unnormalized log probabilities.

    Returns:
        [...] entropies.
    """
    log_prob = logits.log_softmax(dim=-1)
    # Masked outcomes give 0 * -inf, and the gradient through the mask must stay finite too.
    possible = log_prob.masked_fill(log_prob == -math.inf, 0.0)
    return -(log_prob.exp() * possible).sum(dim=-1)


def gaussian_entropy(log_std: Tensor) -> Tensor:
    """Gives the entropy of a diagonal Gaussian.

    Args:
        log_std: [..., D].

    Returns:
        [...] entropies.
    """
    return (log_std + _HALF_LOG_2_PI_E).sum(dim=-1)


def continuous_target_entropy(minimum: Tensor, maximum: Tensor, min_prob: float = 0.1) -> Tensor:
    """Gives the entropy of a uniform distribution over the share `min_prob` of each action's range.

    Args:
        minimum: [...], lower bounds of the actions.
        maximum: [...], upper bounds.
        min_prob: share of each range over which the policy should still spread.

    Returns:
        [] entropy, summed over the actions.
    """
    if not bool((maximum > minimum).all()):
        raise ValueError(f"every maximum must exceed its minimum, got {minimum} and {maximum}")
    return (min_prob * (maximum - minimum)).log().sum()


def discrete_target_entropy(num_values: int, min_prob: float = 0.1) -> float:
    """Gives the entropy of a policy that leaves its favourite with probability `min_prob`, evenly to the others.

    Args:
        num_values: number of actions.
        min_prob: probability of not taking the favourite.

    Returns:
        Entropy; 0 if there is only one action.
    """
    if num_values < 1 or not 0.0 < min_prob < 1.0:
        raise ValueError(f"got num_values={num_values}, min_prob={min_prob}; need >= 1 and in (0, 1)")
    if num_values == 1:
        return 0.0
    return -(1 - min_prob) * math.log(1 - min_prob) - min_prob * math.log(min_prob / (num_values - 1))


def soft_maximum(value: Tensor, temperature: Tensor | float, dim: int = -1) -> Tensor:
    """Gives the entropy-regularized maximum `temperature * log sum exp(value / temperature)`.

    Haarnoja et al. (2017), "Reinforcement Learning with Deep Energy-Based Policies", eq. 4.

    Args:
        value: [..., N].
        temperature: positive; near 0 this is the maximum.
        dim: the dimension of the alternatives.

    Returns:
        [...] soft maxima.
    """
    return temperature * torch.logsumexp(value / temperature, dim=dim)
