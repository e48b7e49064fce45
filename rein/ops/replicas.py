"""Values of several critics at once: [B, R] of R replicas, and [B, R, D] for a reward of D dimensions."""

from __future__ import annotations

from torch import Tensor


def pessimistic(values: Tensor, reward_weights: Tensor | None) -> Tensor:
    """Gives the lowest of the replicas.

    Args:
        values: [B, R] or [B, R, D].
        reward_weights: [D]; a dimension with a negative weight takes the highest instead.

    Returns:
        [B] or [B, D].
    """
    if values.shape[1] == 1:
        return values[:, 0]
    if reward_weights is None:
        return values.amin(dim=1)
    sign = reward_weights.sign()
    return (values * sign).amin(dim=1) * sign


def weighted_sum(values: Tensor, reward_weights: Tensor | None) -> Tensor:
    """Gives the one number that a policy is improved by.

    Args:
        values: [..., D] for a vector reward, else [...].
        reward_weights: [D]; None for a scalar reward.

    Returns:
        [...].
    """
    return values if reward_weights is None else values @ reward_weights
