"""Action values of several critics, of discrete actions and of vector rewards, and how a policy climbs them.

Critics give [B, n, ...]: n replicas, then the discrete actions if there are some, then the rewards if there are several.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rein.ops.scan import append_dims


def pessimistic_minimum(q: Tensor, reward_weights: Tensor | None = None) -> Tensor:
    """The lowest of the replicas' values; of a reward with a negative weight the highest.

    Fujimoto et al. (2018), "Addressing Function Approximation Error in Actor-Critic Methods", eq. 10.

    Args:
        q: [B, n, ...] or [B, n, ..., D] with D rewards.
        reward_weights: [D]; None for a scalar reward.

    Returns:
        [B, ...] or [B, ..., D].
    """
    if reward_weights is None:
        return q.amin(1)
    sign = reward_weights.sign()
    return (q * sign).amin(1) * sign


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


def ascent_loss(gradient: Tensor, action: Tensor, clipping: float | None = None) -> Tensor:
    """A loss whose gradient with respect to the action is minus the given one.

    It is half of the squared distance from the action to where the gradient leads: descending it through a
    reparameterised action is the deterministic policy gradient, without a gradient for the critics.

    Args:
        gradient: [B, ...], dQ/da at the action.
        action: [B, ...], with gradient to the policy.
        clipping: limit of the absolute value of each element of `gradient`; None or 0 for none.

    Returns:
        [B].
    """
    if clipping:
        gradient = gradient.clamp(-clipping, clipping)
    goal = (action + gradient).detach()
    elementwise = 0.5 * (goal - action).square()
    return elementwise.flatten(1).sum(1) if action.ndim > 1 else elementwise


def value_gradient(value: Tensor, points: list[Tensor]) -> tuple[Tensor, ...]:
    """dQ/da, without computing gradients of the parameters on the way.

    Args:
        value: [B], computed from `points`.
        points: tensors [B, ...] that require gradient.

    Returns:
        A gradient for each of `points`.
    """
    return torch.autograd.grad(value.sum(), points)
