"""The compare-through TD loss of TAAC (Yu et al. 2021, "TAAC: Temporally Abstract Actor-Critic", arXiv:2104.06521).

Let b_n be what the rollout decided at step n of a sequence (0: repeat, 1: begin anew), and b~_n what the current policy
decides there. As long as both repeat, the stored actions are those of the current policy, so rewards can be summed without
correction. The target of step t bootstraps at the first n > t with b_n or b~_n:

    y_t = r_{t+1} + gamma d_{t+1} (V(s_{t+1}) if b_{t+1} or b~_{t+1} else y_{t+1}),

and at the end of the episode or of the sequence at the latest. Every step of the sequence is the beginning of such a return.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rein.algorithms.losses.ranges import discount_factors
from rein.algorithms.losses.td_loss import LossFunction, summarize_td
from rein.config import configurable
from rein.data_structures import LossInfo, StepType
from rein.ops import append_dims, element_wise_squared_loss, reverse_scan


@configurable
class TAACTDLoss(nn.Module):
    """Loss between values and their compare-through multi-step targets."""

    def __init__(
        self,
        gamma: float | Sequence[float] = 0.99,
        td_error_loss_fn: LossFunction = element_wise_squared_loss,
        debug_summaries: bool = False,
        name: str = "TAACTDLoss",
    ) -> None:
        """Makes the loss.

        Args:
            gamma: discount factor, or one for each dimension of a vector reward.
            td_error_loss_fn: called with targets and values, returns element-wise losses.
            debug_summaries: write values, targets and explained variance.
            name: name in summaries.
        """
        super().__init__()
        self._name = name
        self._gamma = discount_factors(gamma, type(self).__name__)
        self._td_error_loss_fn = td_error_loss_fn
        self._debug_summaries = debug_summaries

    @property
    def gamma(self) -> Tensor:
        """Discount factor, a scalar or [D]."""
        return self._gamma.clone()

    @torch.no_grad()
    def compute_td_target(self, info: Any, target_value: Tensor) -> Tensor:
        """The targets of all steps but the last.

        Args:
            info: has `reward` [T, B] or [T, B, D], `step_type`, `discount`, `rollout_b` and `b` [T, B].
            target_value: [T, B] or [T, B, D], values to bootstrap from.

        Returns:
            [T - 1, B] or [T - 1, B, D]; no gradient flows through them.
        """
        is_last = info.step_type == StepType.LAST
        bootstraps = (info.rollout_b != 0) | (info.b != 0) | is_last
        bootstraps[-1] = True
        bootstraps, is_last = (append_dims(mask, target_value.ndim) for mask in (bootstraps, is_last))
        discount = append_dims(info.discount, target_value.ndim) * self._gamma
        value, discount, bootstraps = target_value[1:], discount[1:], bootstraps[1:]
        # A LAST step has no successor in its episode; its loss is masked, and its target is what it is compared with.
        increment = torch.where(is_last[:-1], target_value[:-1], info.reward[1:] + discount * bootstraps * value)
        decay = discount * ~(bootstraps | is_last[:-1])
        return reverse_scan(increment, decay)

    def forward(self, info: Any, value: Tensor, target_value: Tensor) -> LossInfo:
        """The loss of every step.

        Args:
            info: see `compute_td_target`.
            value: [T, B] or [T, B, D], what is learnt.
            target_value: same shape, what is bootstrapped from.

        Returns:
            `loss` [T, B] with zeros in the last row; `extra` is the same.
        """
        target = self.compute_td_target(info, target_value)
        if self._debug_summaries:
            summarize_td(self._name, value[:-1], target, info.step_type)
        loss = self._td_error_loss_fn(target, value[:-1])
        loss = loss.mean(2) if loss.ndim == 3 else loss
        loss = torch.cat([loss, torch.zeros_like(loss[:1])])
        return LossInfo(loss=loss, extra=loss)
