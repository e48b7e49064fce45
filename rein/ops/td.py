"""Targets corrected for what another policy did; row t is about the action taken at t."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from rein.ops.returns import broadcast_rows, check_lambda, continuation
from rein.ops.scan import reverse_scan


class VTraceOutput(NamedTuple):
    """What V-trace gives the critic and the actor.

    Attributes:
        target: [T, B, ...], regression target of the value function.
        advantage: [T, B, ...], weight of the policy gradient, importance ratio included.
    """

    target: Tensor
    advantage: Tensor


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
