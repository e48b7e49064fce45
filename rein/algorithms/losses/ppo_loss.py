"""The clipped surrogate loss of proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347, eq. 7 and 9).

    r_t = pi(a_t | s_t) / pi_rollout(a_t | s_t)
    L = -min(r_t A_t, clip(r_t, 1 - e, 1 + e) A_t) + w_td loss(G_t, V(s_t)) - w_H H(pi(. | s_t))

Values are not clipped.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from rein.algorithms.losses.actor_critic_loss import ActorCriticLoss
from rein.algorithms.losses.td_loss import LossFunction
from rein.config import configurable
from rein.distributions import compute_log_probability
from rein.ops import approximate_kl, clipped_surrogate, element_wise_squared_loss, importance_ratio
from rein.runtime import summary
from rein.runtime.schedules import ConstantScheduler, Scheduler, as_scheduler


@configurable
class PPOLoss(ActorCriticLoss):
    """PPO's loss; `PPOAlgorithm.preprocess_experience` computes its advantages and returns."""

    is_compilable = True

    def __init__(
        self,
        gamma: float | Sequence[float] = 0.99,
        td_error_loss_fn: LossFunction = element_wise_squared_loss,
        td_lambda: float = 0.95,
        normalize_advantages: bool = True,
        compute_advantages_internally: bool = False,
        advantage_clip: float | None = None,
        entropy_regularization: float | Scheduler | None = None,
        td_loss_weight: float = 1.0,
        importance_ratio_clipping: float | Scheduler = 0.2,
        log_prob_clipping: float = 0.0,
        check_numerics: bool = False,
        debug_summaries: bool = False,
        name: str = "PPOLoss",
    ) -> None:
        """Makes the loss.

        Args:
            gamma: discount factor, or one for each dimension of a vector reward.
            td_error_loss_fn: called with returns and values, returns element-wise losses.
            td_lambda: lambda of generalized advantage estimation.
            normalize_advantages: give advantages zero mean and unit variance within each minibatch.
            compute_advantages_internally: compute advantages here, from the minibatch, instead of beforehand.
            advantage_clip: clip advantages to [-x, x].
            entropy_regularization: weight of the entropy; may change with progress.
            td_loss_weight: weight of the value loss.
            importance_ratio_clipping: e above; may change with progress.
            log_prob_clipping: if positive, clip log-probabilities to [-x, x].
            check_numerics: raise if the policy loss is not finite.
            debug_summaries: write importance ratios, clipping and divergence.
            name: name in summaries.
        """
        super().__init__(
            gamma=gamma,
            td_error_loss_fn=td_error_loss_fn,
            use_gae=True,
            td_lambda=td_lambda,
            use_td_lambda_return=True,
            normalize_advantages=normalize_advantages,
            advantage_clip=advantage_clip,
            entropy_regularization=entropy_regularization,
            td_loss_weight=td_loss_weight,
            debug_summaries=debug_summaries,
            name=name,
        )
        self._compute_advantages_internally = compute_advantages_internally
        self._importance_ratio_clipping = as_scheduler(importance_ratio_clipping)
        self._log_prob_clipping = log_prob_clipping
        self._check_numerics = check_numerics

    @property
    def changes_with_progress(self) -> bool:
        """Whether a number of the loss changes while training goes on."""
        return super().changes_with_progress or not isinstance(self._importance_ratio_clipping, ConstantScheduler)

    @property
    def compute_advantages_internally(self) -> bool:
        """Whether advantages are computed here instead of in `preprocess_experience`."""
        return self._compute_advantages_internally

    def _targets(self, info: Any, value: Tensor) -> tuple[Tensor, Tensor]:
        if self._compute_advantages_internally:
            return self.returns_and_advantages(info, value)
        return info.returns, info.advantages

    def _pg_loss(self, info: Any, advantages: Tensor) -> Tensor:
        """-min(r A, clip(r, 1 - e, 1 + e) A), [T, B]."""
        log_prob = compute_log_probability(info.action_distribution, info.action)
        rollout_log_prob = info.rollout_log_prob
        if not isinstance(rollout_log_prob, Tensor):
            rollout_log_prob = compute_log_probability(info.rollout_action_distribution, info.action).detach()
        ratio = importance_ratio(log_prob, rollout_log_prob, self._log_prob_clipping)
        loss = -clipped_surrogate(ratio, advantages, self._importance_ratio_clipping())
        if self._check_numerics and not bool(torch.isfinite(loss).all()):
            raise FloatingPointError(f"{self._name}: the policy loss is not finite; ratios reach {ratio.max().item()}")
        if self._debug_summaries and summary.should_record_summaries():
            clipped = (ratio.detach() - 1).abs() > self._importance_ratio_clipping()
            with summary.scope(self._name):
                summary.scalar("clip_fraction", clipped.float().mean())
                summary.scalar("approximate_kl", approximate_kl((log_prob - rollout_log_prob).detach()).mean())
        return loss
