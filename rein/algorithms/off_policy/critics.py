"""Ensembles of action values, and what several algorithms do with them alike.

Values of R replicas are [B, R], and [B, R, D] for a reward of D dimensions.
"""

from typing import Any

import torch
from torch import Tensor, nn

from rein import nest
from rein.nest import Nest
from rein.networks import Network
from rein.ops import pessimistic, sequence_priority, weighted_sum
from rein.specs import TensorSpec

__all__ = [
    "Critics",
    "action_gradient_loss",
    "pessimistic",
    "replicas_td_loss",
    "sequence_priority",
    "weighted_sum",
]


class Critics(nn.Module):
    """R replicas of Q(s, a) for each dimension of the reward, evaluated in one batched call."""

    def __init__(self, network: Network, num_replicas: int, reward_spec: TensorSpec) -> None:
        """Makes the replicas.

        Args:
            network: from (observation, action) to a scalar value.
            num_replicas: R.
            reward_spec: scalar, or a vector of D.
        """
        super().__init__()
        if num_replicas < 1:
            raise ValueError(f"num_critic_replicas is {num_replicas}: it must be at least 1")
        if reward_spec.ndim > 1:
            raise ValueError(f"reward_spec is {reward_spec}: rewards are scalars or vectors")
        self._shape = (num_replicas, reward_spec.numel) if reward_spec.ndim else (num_replicas,)
        self.networks = network.make_parallel(num_replicas * reward_spec.numel)

    def copy(self) -> "Critics":
        """The same ensemble with fresh parameters, for a target that is then made equal."""
        clone = Critics.__new__(Critics)
        nn.Module.__init__(clone)
        clone._shape = self._shape
        clone.networks = self.networks.copy()
        return clone

    @property
    def state_spec(self) -> Nest:
        """Specs of the recurrent state."""
        return self.networks.state_spec

    def forward(self, inputs: tuple[Nest, Nest], state: Nest = ()) -> tuple[Tensor, Nest]:
        """Values [B, R] or [B, R, D] of (observation, action), and the new recurrent state."""
        values, state = self.networks(inputs, state)
        return (values.unflatten(1, self._shape) if len(self._shape) > 1 else values), state


def action_gradient_loss(value: Tensor, action: Nest, clipping: float | None = None) -> Tensor:
    """A loss [B] whose gradient with respect to the action is -dQ/da: Silver et al. (2014), theorem 1.

    No gradient is computed for the parameters that `value` depends on.

    Args:
        value: [B], Q(s, a), computed from `action`.
        action: nest [B, ...] with gradient to the policy.
        clipping: largest absolute value of each element of dQ/da; None or 0 does not clip.
    """
    leaves = nest.flatten(action)
    loss = torch.zeros_like(value)
    for leaf, slope in zip(leaves, torch.autograd.grad(value.sum(), leaves), strict=True):
        slope = slope.clamp(-clipping, clipping) if clipping else slope
        error = (leaf + slope).detach() - leaf
        loss = loss + 0.5 * error.square().flatten(1).sum(1)
    return loss


def replicas_td_loss(td_loss: Any, info: Any, values: Tensor, target_value: Tensor) -> Tensor:
    """The TD losses [T, B] of all replicas, added up.

    Args:
        td_loss: `TDLoss` or another loss of that form.
        info: has `reward`, `step_type` and `discount`, time-major.
        values: [T, B, R, ...].
        target_value: [T, B, ...], the same for all replicas.
    """
    steps, batch_size, replicas = values.shape[:3]
    if replicas == 1:
        return td_loss(info, values[:, :, 0], target_value).loss
    # The loss treats every sequence by itself, so replicas may stand beside each other as more sequences.
    fields = {name: _tile(getattr(info, name), replicas) for name in info._fields if name in _PER_SEQUENCE}
    values = values.transpose(1, 2).flatten(1, 2)
    loss = td_loss(info._replace(**fields), values, _tile(target_value, replicas)).loss
    return loss.reshape(steps, replicas, batch_size).sum(1)


_PER_SEQUENCE = ("reward", "step_type", "discount", "discounted_return")


def _tile(tensor: Any, replicas: int) -> Any:
    """[T, B, ...] repeated to [T, R * B, ...]."""
    if not isinstance(tensor, Tensor):
        return tensor
    return tensor.unsqueeze(1).expand(-1, replicas, *tensor.shape[1:]).flatten(1, 2)
