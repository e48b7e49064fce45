"""One-step temporal-difference losses: `TDLoss` and `TDQRLoss` with lambda 0."""

from collections.abc import Callable, Sequence

from torch import Tensor

from rein.algorithms.losses.td_loss import LossFunction, TDLoss, TDQRLoss
from rein.config import configurable
from rein.ops import element_wise_squared_loss, huber_function


@configurable
class OneStepTDLoss(TDLoss):
    """Loss between values and their one-step targets."""

    def __init__(
        self,
        gamma: float | Sequence[float] = 0.99,
        td_error_loss_fn: LossFunction = element_wise_squared_loss,
        debug_summaries: bool = False,
        name: str = "OneStepTDLoss",
    ) -> None:
        """Makes the loss.

        Args:
            gamma: discount factor, or one for each dimension of a vector reward.
            td_error_loss_fn: called with targets and values, returns element-wise losses.
            debug_summaries: write values, targets and explained variance.
            name: name in summaries.
        """
        super().__init__(gamma, td_error_loss_fn, td_lambda=0.0, debug_summaries=debug_summaries, name=name)


@configurable
class OneStepTDQRLoss(TDQRLoss):
    """Quantile regression on one-step targets."""

    def __init__(
        self,
        num_quantiles: int = 50,
        gamma: float | Sequence[float] = 0.99,
        td_error_loss_fn: Callable[[Tensor], Tensor] = huber_function,
        sum_over_quantiles: bool = False,
        debug_summaries: bool = False,
        name: str = "OneStepTDQRLoss",
    ) -> None:
        """Makes the loss.

        Args:
            num_quantiles: number of quantiles that values hold in their last dimension.
            gamma: discount factor.
            td_error_loss_fn: applied to the pairwise errors between targets and values.
            sum_over_quantiles: sum the loss over quantiles instead of averaging.
            debug_summaries: write values, targets and explained variance.
            name: name in summaries.
        """
        super().__init__(
            num_quantiles,
            gamma,
            td_error_loss_fn,
            td_lambda=0.0,
            sum_over_quantiles=sum_over_quantiles,
            debug_summaries=debug_summaries,
            name=name,
        )
