"""Entropies, in nats, that are commonly set as targets."""

from __future__ import annotations

import math

from torch import Tensor


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
