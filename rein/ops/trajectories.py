"""Returns and advantages of segments of time steps: row t is what the environment said at step t.

`reward[t]` and `discount[t]` came *with* step t: they belong to the action taken at t - 1. `value[t]` is the value
of the observation of step t. A segment of T steps therefore holds T - 1 transitions, and every result has T - 1 rows:
row t is about the action taken at t, which earned `reward[t + 1]` and whose future is discounted by `discount[t + 1]`
(gamma included, 0 only at a true terminal).

At a LAST step nothing is decided; the row after it starts the next episode. Its target is `value[t]` and its
advantage 0, so that a loss against `value` vanishes there even before it is masked. Where the episode was cut by a
time limit (LAST with discount > 0) the step before bootstraps from the value of the LAST observation.

Tensors with fewer dimensions are broadcast by adding dimensions on the right: `step_type` and `discount` [T, B] go
with `reward` [T, B, D] and with `value` [T, B, D, quantiles]. No gradient flows through the results.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rein.data_structures import StepType
from rein.ops.returns import broadcast_rows, check_lambda, n_step_return
from rein.ops.scan import append_dims, reverse_scan


@torch.no_grad()
def trajectory_discounted_return(reward: Tensor, value: Tensor, step_type: Tensor, discount: Tensor) -> Tensor:
    """Sums discounted rewards to the end of each episode or of the segment, then bootstraps.

    Sutton & Barto (2018), eq. 3.9, with the value of the last step for what lies beyond the segment.

    Args:
        reward: [T, B] or [T, B, D], received with step t.
        value: [T, B] or [T, B, D, ...], value of the observation of step t.
        step_type: [T, B].
        discount: [T, B] or [T, B, D], received with step t, gamma included.

    Returns:
        [T - 1, B, ...] targets; no gradient flows through them.
    """
    return trajectory_lambda_return(reward, value, step_type, discount, 1.0)


@torch.no_grad()
def trajectory_one_step_return(reward: Tensor, value: Tensor, step_type: Tensor, discount: Tensor) -> Tensor:
    """Adds the next reward to the discounted next value.

    Sutton & Barto (2018), eq. 6.2.

    Args:
        reward: [T, B] or [T, B, D], received with step t.
        value: [T, B] or [T, B, D, ...], value of the observation of step t.
        step_type: [T, B].
        discount: [T, B] or [T, B, D], received with step t, gamma included.

    Returns:
        [T - 1, B, ...] targets; no gradient flows through them.
    """
    reward, value, discount, is_last = _transitions(reward, value, step_type, discount)
    return torch.where(is_last, value[:-1], reward + discount * value[1:])


@torch.no_grad()
def trajectory_n_step_return(reward: Tensor, value: Tensor, step_type: Tensor, discount: Tensor, n: int) -> Tensor:
    """Sums `n` discounted rewards and bootstraps; fewer where the episode or the segment ends earlier.

    Sutton & Barto (2018), eq. 7.1.

    Args:
        reward: [T, B] or [T, B, D], received with step t.
        value: [T, B] or [T, B, D, ...], value of the observation of step t.
        step_type: [T, B].
        discount: [T, B] or [T, B, D], received with step t, gamma included.
        n: number of rewards to sum; 1 is one-step TD.

    Returns:
        [T - 1, B, ...] targets; no gradient flows through them.
    """
    reward, value, discount, is_last = _transitions(reward, value, step_type, discount)
    ends_next = torch.zeros_like(is_last)
    ends_next[:-1] = is_last[1:]
    target = n_step_return(reward, discount, value[1:], n, cut=ends_next)
    return torch.where(is_last, value[:-1], target)


@torch.no_grad()
def trajectory_lambda_return(reward: Tensor, value: Tensor, step_type: Tensor, discount: Tensor, lam: float) -> Tensor:
    """Backs up TD(lambda) targets from the last step of a segment.

    Sutton & Barto (2018), eq. 12.18.

    Args:
        reward: [T, B] or [T, B, D], received with step t.
        value: [T, B] or [T, B, D, ...], value of the observation of step t.
        step_type: [T, B].
        discount: [T, B] or [T, B, D], received with step t, gamma included.
        lam: 0 is one-step TD, 1 is the Monte Carlo return.

    Returns:
        [T - 1, B, ...] targets; no gradient flows through them.
    """
    check_lambda(lam)
    reward, value, discount, is_last = _transitions(reward, value, step_type, discount)
    trace = torch.full_like(discount, lam)
    trace[-1] = 0
    increment = torch.where(is_last, value[:-1], reward + discount * (1 - trace) * value[1:])
    return reverse_scan(increment, (discount * trace).masked_fill_(is_last, 0))


@torch.no_grad()
def trajectory_advantage(reward: Tensor, value: Tensor, step_type: Tensor, discount: Tensor, lam: float) -> Tensor:
    """Estimates advantages by exponentially averaged TD errors.

    Schulman et al. (2016), "High-Dimensional Continuous Control Using Generalized Advantage Estimation", eq. 16.
    The result plus `value[:-1]` equals `trajectory_lambda_return`.

    Args:
        reward: [T, B] or [T, B, D], received with step t.
        value: [T, B] or [T, B, D, ...], value of the observation of step t.
        step_type: [T, B].
        discount: [T, B] or [T, B, D], received with step t, gamma included.
        lam: 0 is the one-step TD error, 1 the Monte Carlo return minus the value.

    Returns:
        [T - 1, B, ...] advantages, 0 at LAST steps; no gradient flows through them.
    """
    check_lambda(lam)
    reward, value, discount, is_last = _transitions(reward, value, step_type, discount)
    td_error = reward + discount * value[1:] - value[:-1]
    return reverse_scan(td_error.masked_fill_(is_last, 0), (lam * discount).masked_fill_(is_last, 0))


def _transitions(
    reward: Tensor, value: Tensor, step_type: Tensor, discount: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns reward [T-1, ...], value [T, ...], discount [T-1, ...] and is_last [T-1, ...] of one trailing shape."""
    reward, value, discount = broadcast_rows(reward=reward, value=value, discount=discount)
    if reward.shape[0] < 2:
        raise ValueError(f"a return needs at least 2 time steps, got reward of shape {tuple(reward.shape)}")
    if step_type.shape != reward.shape[: step_type.ndim] or step_type.ndim < min(2, reward.ndim):
        raise ValueError(
            f"step_type has shape {tuple(step_type.shape)}, expected the time and batch dimensions "
            f"of {tuple(reward.shape)}"
        )
    reward = reward[1:]
    is_last = append_dims(step_type[:-1] == StepType.LAST, reward.ndim)
    return reward, value, discount[1:], is_last if is_last.shape == reward.shape else is_last.expand_as(reward)
