"""Actor-critic loss for rollouts of an older policy (Espeholt et al. 2018, arXiv:1802.01561, section 4.2).

With r_t = pi(a_t | s_t) / pi_rollout(a_t | s_t), rho_t = min(rho, r_t) and c_t = lambda min(c, r_t):

    v_t = V(s_t) + sum_{s >= t} gamma^{s-t} (c_t ... c_{s-1}) rho_s (r_{s+1} + gamma V(s_{s+1}) - V(s_s))
    L   = -rho_t (r_{t+1} + gamma v_{t+1} - V(s_t)) log pi(a_t | s_t) + w_td loss(v_t, V(s_t)) - w_H H(pi(. | s_t))
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from rein.algorithms.losses.actor_critic_loss import ActorCriticLoss
from rein.algorithms.losses.td_loss import LossFunction
from rein.config import configurable
from rein.data_structures import StepType
from rein.distributions import compute_log_probability
from rein.ops import element_wise_squared_loss, vtrace
from rein.runtime.schedules import Scheduler


@configurable
class VTraceLoss(ActorCriticLoss):
    """IMPALA's loss, for an algorithm that learns from whole stored rollouts, such as `PPOAlgorithm`."""

    def __init__(
        self,
        gamma: float | Sequence[float] = 0.99,
        td_error_loss_fn: LossFunction = element_wise_squared_loss,
        td_lambda: float = 1.0,
        rho_clip: float = 1.0,
        trace_clip: float = 1.0,
        correct: bool = True,
        normalize_advantages: bool = False,
        advantage_clip: float | None = None,
        entropy_regularization: float | Scheduler | None = None,
        td_loss_weight: float = 1.0,
        debug_summaries: bool = False,
        name: str = "VTraceLoss",
    ) -> None:
        """Makes the loss.

        Args:
            gamma: discount factor, or one for each dimension of a vector reward.
            td_error_loss_fn: called with targets and values, returns element-wise losses.
            td_lambda: decay of the trace.
            rho_clip: largest ratio in the temporal differences (rho); decides which policy is evaluated.
            trace_clip: largest ratio in the trace (c); decides how fast.
            correct: False takes every ratio for 1, as if the rollout were of the current policy; to compare.
            normalize_advantages: give advantages zero mean and unit variance within the batch.
            advantage_clip: clip advantages to [-x, x].
            entropy_regularization: weight of the entropy.
            td_loss_weight: weight of the value loss.
            debug_summaries: write values and targets.
            name: name in summaries.
        """
        super().__init__(
            gamma=gamma,
            td_error_loss_fn=td_error_loss_fn,
            td_lambda=td_lambda,
            normalize_advantages=normalize_advantages,
            advantage_clip=advantage_clip,
            entropy_regularization=entropy_regularization,
            td_loss_weight=td_loss_weight,
            debug_summaries=debug_summaries,
            name=name,
        )
        if rho_clip <= 0 or trace_clip <= 0:
            raise ValueError(f"{name}: rho_clip is {rho_clip} and trace_clip {trace_clip}: both must be positive")
        self._rho_clip, self._trace_clip, self._corrects = rho_clip, trace_clip, correct

    def _targets(self, info: Any, value: Tensor) -> tuple[Tensor, Tensor]:
        """v_t and rho_t (r_{t+1} + gamma v_{t+1} - V(s_t)); at the last step the value itself and 0."""
        with torch.no_grad():
            log_ratio = compute_log_probability(info.action_distribution, info.action) - info.rollout_log_prob
        if not self._corrects:
            log_ratio = torch.zeros_like(log_ratio)
        discount = info.discount * self._gamma if self._gamma.ndim == 0 else info.discount[..., None] * self._gamma
        target, advantage = vtrace(
            info.reward[1:],
            discount[1:],
            value[:-1],
            value[1:],
            log_ratio[:-1],
            self._lambda,
            self._rho_clip,
            self._trace_clip,
            cut=info.step_type[1:] == StepType.LAST,
        )
        return torch.cat([target, value[-1:]]), torch.cat([advantage, torch.zeros_like(value[-1:])])
