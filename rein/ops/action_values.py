"""Values of discrete actions: of the one that was taken, and of a policy.

Critics give [B, n, A, ...]: n replicas, A actions, and what else there is, such as several rewards.
"""

from __future__ import annotations

from torch import Tensor

from rein.ops.scan import append_dims


def select_action_value(q: Tensor, action: Tensor) -> Tensor:
    """The values of the discrete actions that were taken.

    Args:
        q: [B, n, A, ...].
        action: [B] whole numbers in [0, A).

    Returns:
        [B, n, ...].
    """
    index = append_dims(action.long(), q.ndim).expand(*q.shape[:2], 1, *q.shape[3:])
    return q.gather(2, index).squeeze(2)


def expected_action_value(q: Tensor, probs: Tensor) -> Tensor:
    """The mean value of a discrete action under a policy.

    Args:
        q: [B, A, ...].
        probs: [B, A].

    Returns:
        [B, ...].
    """
    return (append_dims(probs, q.ndim) * q).sum(1)
