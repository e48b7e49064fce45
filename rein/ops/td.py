"""Temporal-difference targets, one-step and off-policy corrected; row t is about the action taken at t."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from rein.ops.returns import broadcast_rows, check_lambda, continuation
from rein.ops.scan import append_dims, reverse_scan


class VTraceOutput(NamedTuple):
    """What V-trace gives the critic and the actor.

    Attributes:
        target: [T, B, ...], regression target of the value function.
        advantage: [T, B, ...], weight of the policy gradient, importance ratio included.
    """

    target: Tensor
    advantage: Tensor


@torch.no_grad()
def td_target(reward: Tensor, discount: Tensor, next_value: Tensor) -> Tensor:
    """Adds the reward to the discounted next value.

    Sutton & Barto (2018), eq. 6.2.

    Args:
        reward: [...], earned by the action.
        discount: [...], gamma included; 0 where the episode terminated.
        next_value: [..., *extra], value of the state reached; `extra` may be replicas or quantiles.

    Returns:
        [..., *extra] targets; no gradient flows through them.
    """
    ndim = max(reward.ndim, discount.ndim, next_value.ndim)
    reward, discount, next_value = (append_dims(x, ndim) for x in (reward, discount, next_value))
    return reward + discount * next_value


@torch.no_grad()
def double_q_target(reward: Tensor, discount: Tensor, next_q_online: Tensor, next_q_target: Tensor) -> Tensor:
    """Evaluates with the target network the action which the online network prefers.

    van Hasselt et al. (2016), "Deep Reinforcement Learning with Double Q-learning", eq. 4.

    Args:
        reward: [...], earned by the action.
        discount: [...], gamma included; 0 where the episode terminated.
        next_q_online: [..., A], action values of the next state by the network being trained.
        next_q_target: [..., A], the same by the target network.

    Returns:
        [...] targets; no gradient flows through them.
    """
    best = next_q_online.argmax(dim=-1, keepdim=True)
    return td_target(reward, discount, next_q_target.gather(-1, best).squeeze(-1))


@torch.no_grad()
def clipped_double_q_target(reward: Tensor, discount: Tensor, next_q: Tensor, dim: int = -1) -> Tensor:
    """Backs up the smallest of several critics.

    Fujimoto et al. (2018), "Addressing Function Approximation Error in Actor-Critic Methods", eq. 10.

    Args:
        reward: [...], earned by the action.
        discount: [...], gamma included; 0 where the episode terminated.
        next_q: [..., R], values of the next action by R critics.
        dim: the dimension of the critics.

    Returns:
        [...] targets; no gradient flows through them.
    """
    return td_target(reward, discount, next_q.amin(dim=dim))


@torch.no_grad()
def retrace_target(
    reward: Tensor,
    discount: Tensor,
    q_value: Tensor,
    next_value: Tensor,
    log_ratio: Tensor,
    lam: float = 1.0,
    cut: Tensor | None = None,
) -> Tensor:
    """Gives off-policy action-value targets with importance ratios truncated at one.

    Munos et al. (2016), "Safe and Efficient Off-Policy Reinforcement Learning", eq. 3 and 4.

    Args:
        reward: [T, B] or [T, B, D], earned by the action at t.
        discount: [T, B] or [T, B, D], gamma included; 0 where the episode terminated.
        q_value: [T, B] or [T, B, D], Q(s_t, a_t).
        next_value: [T, B] or [T, B, D], expectation of Q(s_{t+1}, .) under the target policy.
        log_ratio: [T, B], log of target over behaviour probability of the action at t.
        lam: decay of the trace; 0 is one-step TD.
        cut: [T, B], True where row t + 1 belongs to another episode.

    Returns:
        Targets for `q_value`, of the broadcast shape; no gradient flows through them.
    """
    check_lambda(lam)
    reward, discount, q_value, next_value, log_ratio = broadcast_rows(
        reward=reward, discount=discount, q_value=q_value, next_value=next_value, log_ratio=log_ratio
    )
    coefficient = lam * log_ratio.clamp(max=0.0).exp()
    # The correction learnt at t + 1 is weighted by the ratio of the action taken there.
    trace = torch.zeros_like(coefficient)
    trace[:-1] = coefficient[1:]
    td_error = reward + discount * next_value - q_value
    return q_value + reverse_scan(td_error, discount * trace * continuation(reward, cut))


@torch.no_grad()
def vtrace(
    reward: Tensor,
    discount: Tensor,
    value: Tensor,
    next_value: Tensor,
    log_ratio: Tensor,
    lam: float = 1.0,
    rho_clip: float = 1.0,
    trace_clip: float = 1.0,
    cut: Tensor | None = None,
) -> VTraceOutput:
    """Gives off-policy value targets and the advantages of the policy gradient.

    Espeholt et al. (2018), "IMPALA: Scalable Distributed Deep-RL with Importance Weighted Actor-Learner
    Architectures", eq. 1 and section 4.2. With equal policies and `lam` 1 the target is the Monte Carlo return.

    Args:
        reward: [T, B] or [T, B, D], earned by the action at t.
        discount: [T, B] or [T, B, D], gamma included; 0 where the episode terminated.
        value: [T, B] or [T, B, D], value of the state at t.
        next_value: [T, B] or [T, B, D], value of the state reached at t + 1.
        log_ratio: [T, B], log of target over behaviour probability of the action at t.
        lam: decay of the trace.
        rho_clip: bound on the ratio in the TD errors; decides which policy is evaluated.
        trace_clip: bound on the ratio in the trace; decides how fast.
        cut: [T, B], True where row t + 1 belongs to another episode.

    Returns:
        Targets and advantages of the broadcast shape; no gradient flows through them.
    """
    check_lambda(lam)
    reward, discount, value, next_value, log_ratio = broadcast_rows(
        reward=reward, discount=discount, value=value, next_value=next_value, log_ratio=log_ratio
    )
    ratio = log_ratio.exp()
    rho = ratio.clamp(max=rho_clip)
    follows = continuation(reward, cut)
    td_error = rho * (reward + discount * next_value - value)
    trace = lam * ratio.clamp(max=trace_clip) * follows
    target = value + reverse_scan(td_error, discount * trace)
    next_target = next_value.clone()
    next_target[:-1] = torch.where(follows[:-1].bool(), target[1:], next_value[:-1])
    return VTraceOutput(target, rho * (reward + discount * next_target - value))
