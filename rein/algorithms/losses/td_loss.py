"""Temporal-difference losses over segments of time steps.

With R_{t+1} the reward and d_{t+1} the discount of step t + 1, and V the target value, the bootstrapped return is

    G_{t:T} = R_{t+1} + gamma d_{t+1} R_{t+2} + ... + gamma^{T-t} d_{t+1} ... d_T V(s_T)

and the target of step t is G_{t:t+1} for lambda = 0, G_{t:T} for lambda = 1, and their lambda-return in between (Sutton &
Barto 2018, chapter 12). The last step of a segment has no successor and no loss.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rein.algorithms.losses.ranges import discount_factors, trace_decay
from rein.config import configurable
from rein.data_structures import LossInfo
from rein.ops import (
    element_wise_squared_loss,
    explained_variance,
    huber_function,
    quantile_huber_loss,
    quantile_midpoints,
    trajectory_discounted_return,
    trajectory_lambda_return,
    trajectory_one_step_return,
)
from rein.runtime import summary
from rein.specs import TensorSpec
from rein.statistics import AdaptiveNormalizer

LossFunction = Callable[[Tensor, Tensor], Tensor]


@configurable
class TDLoss(nn.Module):
    """Loss between values and their TD(lambda) targets."""

    def __init__(
        self,
        gamma: float | Sequence[float] = 0.99,
        td_error_loss_fn: LossFunction = element_wise_squared_loss,
        td_lambda: float = 0.95,
        normalize_target: bool = False,
        debug_summaries: bool = False,
        name: str = "TDLoss",
    ) -> None:
        """Makes the loss.

        Args:
            gamma: discount factor, or one for each dimension of a vector reward.
            td_error_loss_fn: called with targets and values, returns element-wise losses.
            td_lambda: 0 is one-step TD, 1 bootstraps at the end of the segment only.
            normalize_target: divide values and targets by the running deviation of the targets in the loss; who uses
                the loss calls `take_targets` after each update.
            debug_summaries: write values, targets and explained variance.
            name: name in summaries.
        """
        super().__init__()
        self._name = name
        self._gamma = discount_factors(gamma, type(self).__name__)
        self._td_error_loss_fn = td_error_loss_fn
        self._lambda = trace_decay(td_lambda, type(self).__name__)
        self._normalize_target = normalize_target
        # In a list and not a submodule: its shape is known at the first loss only, too late for loading a state.
        self._target_normalizer: list[AdaptiveNormalizer] = []
        self._debug_summaries = debug_summaries

    @property
    def gamma(self) -> Tensor:
        """Discount factor, a scalar or [D]."""
        return self._gamma.clone()

    def compute_td_target(self, info: Any, target_value: Tensor) -> Tensor:
        """The TD(lambda) targets of all steps but the last.

        Args:
            info: has `reward` [T, B] or [T, B, D], `step_type` and `discount` [T, B].
            target_value: [T, B] or [T, B, D], values to bootstrap from; of two steps also those of the last alone,
                [1, B] or [1, B, D].

        Returns:
            [T - 1, B] or [T - 1, B, D]; no gradient flows through them. Where only the last values are known, those of
            LAST steps, which have no loss, have no meaning.
        """
        discount = _discounts(info, self._gamma)
        if len(target_value) == 1 < len(info.step_type):
            with torch.no_grad():
                target: Tensor = info.reward[1:] + discount[1:] * target_value
            return target
        arguments = (info.reward, target_value, info.step_type, discount)
        if self._lambda == 1.0:
            return trajectory_discounted_return(*arguments)
        if self._lambda == 0.0:
            return trajectory_one_step_return(*arguments)
        return trajectory_lambda_return(*arguments, self._lambda)

    def forward(self, info: Any, value: Tensor, target_value: Tensor) -> LossInfo:
        """The loss of every step.

        Args:
            info: has `reward`, `step_type` and `discount`, time-major.
            value: [T, B] or [T, B, D], what is learnt, or the same without the last row.
            target_value: [T, B] or [T, B, D], what is bootstrapped from, may be `value`; see `compute_td_target`.

        Returns:
            `loss` [T, B] with zeros in the last row, or without it, as `value`; `extra` is the same.
        """
        target = self.compute_td_target(info, target_value)
        has_last = len(value) == len(info.step_type)
        prediction = value[:-1] if has_last else value
        if self._debug_summaries:
            summarize_td(self._name, prediction, target, info.step_type)
        if self._normalize_target:
            prediction, target = self._normalized(prediction, target)
        loss = self._td_error_loss_fn(target.detach(), prediction)
        loss = _with_last_step(loss) if has_last else loss
        loss = loss.mean(dim=2) if loss.ndim == 3 else loss
        return LossInfo(loss=loss, extra=loss)

    @property
    def takes_single_transitions(self) -> bool:
        """Whether it may be given the values of both steps of a transition apart, without rows that are not used."""
        return type(self).forward is TDLoss.forward and not self._debug_summaries

    def _normalized(self, prediction: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Both normalized as if these targets were part of the statistics, which `take_targets` makes them."""
        normalizer = self._normalizer_of(target).updated_by(target)
        return normalizer.normalize(prediction), normalizer.normalize(target)

    def _normalizer_of(self, target: Tensor) -> AdaptiveNormalizer:
        return self._target_normalizer[0] if self._target_normalizer else _target_normalizer(target.shape[2:])

    @property
    def needs_update_infos(self) -> bool:
        """Whether there are statistics to keep by `take_targets`."""
        return self._normalize_target

    def take_targets(self, info: Any, target_value: Tensor) -> None:
        """Takes the targets of an update into the statistics of `normalize_target`; call it once after each update.

        Args:
            info: see `forward`.
            target_value: see `forward`.
        """
        target = self.compute_td_target(info, target_value)
        self._target_normalizer = [self._normalizer_of(target)]
        self._target_normalizer[0].update(target)

    def get_extra_state(self) -> dict[str, Any] | None:
        """Statistics of the targets, once there are some."""
        if not self._target_normalizer:
            return None
        normalizer = self._target_normalizer[0]
        return {"target_shape": list(normalizer.mean().shape), "target_normalizer": dict(normalizer.state_dict())}

    def set_extra_state(self, state: dict[str, Any] | None) -> None:
        """Restores what `get_extra_state` returned."""
        self._target_normalizer = []
        if state is not None:
            self._target_normalizer = [_target_normalizer(torch.Size(state["target_shape"]))]
            self._target_normalizer[0].load_state_dict(state["target_normalizer"])


def _target_normalizer(shape: torch.Size) -> AdaptiveNormalizer:
    return AdaptiveNormalizer(TensorSpec(shape), auto_update=False)


@configurable
class TDQRLoss(TDLoss):
    """Quantile regression on TD targets (Dabney et al. 2018, arXiv:1710.10044)."""

    def __init__(
        self,
        num_quantiles: int = 50,
        gamma: float | Sequence[float] = 0.99,
        td_error_loss_fn: Callable[[Tensor], Tensor] = huber_function,
        td_lambda: float = 1.0,
        sum_over_quantiles: bool = False,
        debug_summaries: bool = False,
        name: str = "TDQRLoss",
    ) -> None:
        """Makes the loss.

        Args:
            num_quantiles: number N of quantiles that values hold in their last dimension.
            gamma: discount factor.
            td_error_loss_fn: applied to the pairwise errors between targets and values.
            td_lambda: 0 or 1; what lies between has no distribution.
            sum_over_quantiles: sum the loss over quantiles instead of averaging.
            debug_summaries: write values, targets and explained variance.
            name: name in summaries.
        """
        if td_lambda not in (0, 1):
            raise ValueError(f"td_lambda is {td_lambda}: quantile targets exist for 0 and 1 only")
        super().__init__(gamma, element_wise_squared_loss, td_lambda, False, debug_summaries, name)
        self._num_quantiles = num_quantiles
        self._error_function = td_error_loss_fn
        self._sum_over_quantiles = sum_over_quantiles

    @property
    def num_quantiles(self) -> int:
        """Number N of quantiles."""
        return self._num_quantiles

    def forward(self, info: Any, value: Tensor, target_value: Tensor) -> LossInfo:
        """The loss of every step.

        Args:
            info: has `reward`, `step_type` and `discount`, time-major.
            value: [T, B, N] or [T, B, D, N] quantiles that are learnt.
            target_value: same shape, quantiles that are bootstrapped from.
        """
        if value.shape[-1] != self._num_quantiles:
            raise ValueError(f"value has {value.shape[-1]} quantiles, the loss was made for {self._num_quantiles}")
        target = self.compute_td_target(info, target_value)
        if self._debug_summaries:
            summarize_td(self._name, value[:-1].mean(-1), target.mean(-1), info.step_type)
        loss = quantile_huber_loss(
            value[:-1],
            target,
            quantile_midpoints(self._num_quantiles),
            self._error_function,
            self._sum_over_quantiles,
        )
        loss = loss.mean(dim=2) if loss.ndim == 3 else loss
        loss = _with_last_step(loss)
        return LossInfo(loss=loss, extra=loss)


def _discounts(info: Any, gamma: Tensor) -> Tensor:
    """Environment discounts times gamma, [T, B] or [T, B, D]."""
    return info.discount * gamma if gamma.ndim == 0 else info.discount.unsqueeze(-1) * gamma


def _with_last_step(loss: Tensor) -> Tensor:
    """Appends a row of zeros for the step that has no successor."""
    return torch.cat([loss, torch.zeros_like(loss[:1])])


def summarize_td(name: str, value: Tensor, target: Tensor, step_type: Tensor) -> None:
    """Writes the means of values and targets, and how much of the targets' variance the values explain."""
    if not summary.should_record_summaries():
        return
    with summary.scope(name):
        summary.scalar("value", value.detach().mean())
        summary.scalar("target", target.mean())
        summary.scalar("explained_variance", explained_variance(target.flatten(), value.detach().flatten()))
