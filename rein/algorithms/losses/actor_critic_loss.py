"""Advantage actor-critic loss (Mnih et al. 2016, arXiv:1602.01783).

    L = -A_t log pi(a_t | s_t) + w_td loss(G_t, V(s_t)) - w_H H(pi(. | s_t))

with G_t the bootstrapped return and A_t = G_t - V(s_t), or the generalized advantage estimate.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rein.algorithms.losses.ranges import discount_factors, trace_decay
from rein.algorithms.losses.td_loss import LossFunction, summarize_td
from rein.config import configurable
from rein.data_structures import LossInfo
from rein.distributions import compute_log_probability, entropy_with_fallback
from rein.framework.algorithm import Loss
from rein.nest import Nest
from rein.ops import element_wise_squared_loss, standardize, trajectory_advantage, trajectory_discounted_return
from rein.runtime.schedules import ConstantScheduler, Scheduler, as_scheduler


class ActorCriticLossInfo(NamedTuple):
    """Parts of the loss, [T, B]."""

    td_loss: Nest = ()
    pg_loss: Nest = ()
    neg_entropy: Nest = ()


@configurable
class ActorCriticLoss(Loss):
    """Policy-gradient loss, value loss and entropy regularization of an actor-critic."""

    is_compilable = True

    def __init__(
        self,
        gamma: float | Sequence[float] = 0.99,
        td_error_loss_fn: LossFunction = element_wise_squared_loss,
        use_gae: bool = False,
        td_lambda: float = 0.95,
        use_td_lambda_return: bool = True,
        normalize_advantages: bool = False,
        advantage_clip: float | None = None,
        entropy_regularization: float | Scheduler | None = None,
        td_loss_weight: float = 1.0,
        debug_summaries: bool = False,
        name: str = "ActorCriticLoss",
    ) -> None:
        """Makes the loss.

        Args:
            gamma: discount factor, or one for each dimension of a vector reward.
            td_error_loss_fn: called with returns and values, returns element-wise losses.
            use_gae: use generalized advantage estimation; otherwise returns minus values.
            td_lambda: lambda of generalized advantage estimation.
            use_td_lambda_return: with `use_gae`, learn values from advantage plus value instead of returns.
            normalize_advantages: give advantages zero mean and unit variance within the batch.
            advantage_clip: clip advantages to [-x, x].
            entropy_regularization: weight of the entropy; may change with progress.
            td_loss_weight: weight of the value loss.
            debug_summaries: write advantages, values and returns.
            name: name in summaries.
        """
        super().__init__(name=name)
        self._gamma = discount_factors(gamma, type(self).__name__)
        self._td_error_loss_fn = td_error_loss_fn
        self._use_gae = use_gae
        self._lambda = trace_decay(td_lambda, type(self).__name__)
        self._use_td_lambda_return = use_td_lambda_return
        self._normalize_advantages = normalize_advantages
        self._advantage_clip = advantage_clip
        self._entropy_regularization: Scheduler | None = (
            None if entropy_regularization is None else as_scheduler(entropy_regularization)
        )
        self._td_loss_weight = td_loss_weight
        self._debug_summaries = debug_summaries

    @property
    def changes_with_progress(self) -> bool:
        """Whether a number of the loss changes while training goes on."""
        return not isinstance(self._entropy_regularization, ConstantScheduler | None)

    @property
    def gamma(self) -> Tensor:
        """Discount factor, a scalar or [D]."""
        return self._gamma

    @property
    def td_lambda(self) -> float:
        """Lambda of generalized advantage estimation."""
        return self._lambda

    def calc_loss(self, info: Any) -> LossInfo:
        """The loss of every step; see `forward`."""
        return self.forward(info)

    def forward(self, info: Any) -> LossInfo:
        """The loss of every step.

        Args:
            info: time-major, with `reward`, `step_type`, `discount`, `action`, `action_distribution` and `value`, and
                `reward_weights` for vector rewards.

        Returns:
            `loss` [T, B]; `extra` holds its parts.
        """
        value = info.value
        returns, advantages = self._targets(info, value.detach())
        if self._debug_summaries:
            summarize_td(self._name, value, returns, info.step_type)
        advantages = self._shaped(scalar_advantages(advantages, info.reward_weights))
        pg_loss = self._pg_loss(info, advantages)
        td_loss = self._td_error_loss_fn(returns, value)
        td_loss = td_loss.mean(dim=2) if td_loss.ndim == 3 else td_loss
        loss = pg_loss + self._td_loss_weight * td_loss
        neg_entropy: Nest = ()
        if self._entropy_regularization is not None:
            entropy, entropy_for_gradient = entropy_with_fallback(info.action_distribution)
            loss = loss - self._entropy_regularization() * entropy_for_gradient
            neg_entropy = -entropy
        return LossInfo(loss=loss, extra=ActorCriticLossInfo(td_loss, pg_loss, neg_entropy))

    def _pg_loss(self, info: Any, advantages: Tensor) -> Tensor:
        """-A log pi(a | s), [T, B]."""
        return -advantages * compute_log_probability(info.action_distribution, info.action)

    def _targets(self, info: Any, value: Tensor) -> tuple[Tensor, Tensor]:
        """Returns and advantages to learn from, [T, B] or [T, B, D]."""
        return self.returns_and_advantages(info, value)

    def returns_and_advantages(self, info: Any, value: Tensor) -> tuple[Tensor, Tensor]:
        """Returns and advantages of every step of a segment; at the last one the value itself and 0.

        Args:
            info: time-major, with `reward`, `step_type` and `discount`.
            value: [T, B] or [T, B, D].

        Returns:
            Two tensors of the shape of `value`; no gradient flows through them.
        """
        discount = info.discount * self._gamma if self._gamma.ndim == 0 else info.discount[..., None] * self._gamma
        segment = (info.reward, value, info.step_type, discount)
        if self._use_gae:
            advantages = trajectory_advantage(*segment, self._lambda)
            if self._use_td_lambda_return:
                returns = advantages + value[:-1]
            else:
                returns = trajectory_discounted_return(*segment)
        else:
            returns = trajectory_discounted_return(*segment)
            advantages = returns - value[:-1]
        return torch.cat([returns, value[-1:]]), torch.cat([advantages, torch.zeros_like(value[-1:])])

    def _shaped(self, advantages: Tensor) -> Tensor:
        """Advantages normalized and clipped as the settings say, [T, B]."""
        if self._normalize_advantages:
            advantages = standardize(advantages)
        if self._advantage_clip is not None:
            advantages = advantages.clamp(-self._advantage_clip, self._advantage_clip)
        return advantages


def scalar_advantages(advantages: Tensor, reward_weights: Nest) -> Tensor:
    """Advantages of a vector reward as one number, [T, B].

    Args:
        advantages: [T, B], returned as it is, or [T, B, D].
        reward_weights: [T, B, D]; `()` sums.
    """
    if advantages.ndim == 2:
        return advantages
    return (advantages * reward_weights).sum(-1) if isinstance(reward_weights, Tensor) else advantages.sum(-1)
