"""The loss of the auxiliary phase of phasic policy gradient (Cobbe et al. 2020, arXiv:2009.04416, eq. 3 and 4).

L = loss(G, V_aux(s)) + w KL(pi_old(. | s) || pi(. | s)) + loss(G, V(s)),     loss(G, V) = 0.5 (G - V)^2
"""

from typing import Any

from torch import Tensor

from rein import nest
from rein.algorithms.losses.td_loss import LossFunction
from rein.config import configurable
from rein.data_structures import LossInfo
from rein.distributions import kl_divergence, sum_over_nest
from rein.framework.algorithm import Loss


def half_squared_loss(target: Tensor, value: Tensor) -> Tensor:
    """Half of the squared error of each element, [...]."""
    return 0.5 * (target - value).square()


@configurable
class PPGAuxPhaseLoss(Loss):
    """Values learnt by both heads, while the policy stays what it was."""

    def __init__(
        self,
        td_error_loss_fn: LossFunction = half_squared_loss,
        policy_kl_loss_weight: float = 1.0,
        name: str = "PPGAuxPhaseLoss",
    ) -> None:
        """Makes the loss.

        Args:
            td_error_loss_fn: called with returns and values, returns element-wise losses.
            policy_kl_loss_weight: weight of the divergence from the old policy (w).
            name: name in summaries.
        """
        super().__init__(name=name)
        self._td_error_loss_fn = td_error_loss_fn
        self._weight = policy_kl_loss_weight

    def calc_loss(self, info: Any) -> LossInfo:
        """The loss of every step; see `forward`."""
        return self.forward(info)

    def forward(self, info: Any) -> LossInfo:
        """The loss of every step.

        Args:
            info: time-major, with `returns`, `value`, `aux_value`, `action_distribution` and `old_distribution`.

        Returns:
            `loss` [T, B]; `extra` holds its parts.
        """
        aux_loss, value_loss = self._td_loss(info.returns, info.aux_value), self._td_loss(info.returns, info.value)
        clone_loss = sum_over_nest(nest.map_structure(kl_divergence, info.old_distribution, info.action_distribution))
        loss = aux_loss + self._weight * clone_loss + value_loss
        return LossInfo(loss=loss, extra={"aux": aux_loss, "clone": clone_loss, "value": value_loss})

    def _td_loss(self, returns: Tensor, value: Tensor) -> Tensor:
        """[T, B], averaged over the dimensions of a vector reward."""
        loss = self._td_error_loss_fn(returns, value)
        return loss.mean(2) if loss.ndim == 3 else loss
