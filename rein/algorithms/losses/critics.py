"""Ensembles of action values, and what several algorithms do with them alike.

Values of R replicas are [B, R], and [B, R, D] for a reward of D dimensions. Where a network gives more than one value (one of
each discrete action, or quantiles), they stand between: [B, R, A, D], or behind: [B, R, D, N].
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from rein import nest
from rein.nest import Nest
from rein.networks import Network
from rein.ops import sequence_priority
from rein.specs import TensorSpec

__all__ = [
    "Critics",
    "action_gradient_loss",
    "keep_target_statistics",
    "pessimistic",
    "replicas_td_loss",
    "require_infos",
    "sequence_priority",
    "weighted_sum",
]


class Critics(nn.Module):
    """R replicas of a critic for each dimension of the reward, evaluated in one batched call."""

    def __init__(
        self,
        network: Network,
        num_replicas: int,
        reward_spec: TensorSpec,
        num_value_dims: int = 0,
        is_reward_last: bool = True,
    ) -> None:
        """Makes the replicas.

        Args:
            network: gives a value, or with a vector reward maybe a value for each of its dimensions, behind all others;
                a network without them is replicated for each dimension.
            num_replicas: R.
            reward_spec: scalar, or a vector of D.
            num_value_dims: dimensions of the values for one reward: 0 for Q(s, a), 1 for Q(s, .) or quantiles.
            is_reward_last: whether dimensions of the reward stand behind those of the values.
        """
        super().__init__()
        if num_replicas < 1:
            raise ValueError(f"num_critic_replicas is {num_replicas}: it must be at least 1")
        if reward_spec.ndim > 1:
            raise ValueError(f"reward_spec is {reward_spec}: rewards are scalars or vectors")
        self.num_replicas = num_replicas
        self._reward_shape = tuple(reward_spec.shape)
        self._reward_position = -1 if is_reward_last else 2
        self._has_reward_dim = reward_spec.ndim == 1 and network.output_spec.ndim > num_value_dims
        if self._has_reward_dim and tuple(network.output_spec.shape[num_value_dims:]) != self._reward_shape:
            raise ValueError(
                f"{network.name} gives values of shape {tuple(network.output_spec.shape)} for a reward of shape "
                f"{self._reward_shape}: give as many values as rewards, or one, which is replicated"
            )
        self.networks = network.make_parallel(num_replicas * (1 if self._has_reward_dim else reward_spec.numel))

    def copy(self) -> "Critics":
        """The same ensemble with fresh parameters, for a target that is then made equal."""
        clone = Critics.__new__(Critics)
        nn.Module.__init__(clone)
        clone.num_replicas = self.num_replicas
        clone._reward_shape = self._reward_shape
        clone._reward_position, clone._has_reward_dim = self._reward_position, self._has_reward_dim
        clone.networks = self.networks.copy()
        return clone

    @property
    def state_spec(self) -> Nest:
        """Specs of the recurrent state."""
        return self.networks.state_spec

    @property
    def is_rnn(self) -> bool:
        """Whether there is a recurrent state."""
        return self.networks.is_rnn

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[Tensor, Nest]:
        """Values [B, R, ...] of what the networks take in, and the new recurrent state."""
        values, state = self.networks(inputs, state)
        if not self._reward_shape:
            return values, state
        if self._has_reward_dim:
            return values.movedim(-1, self._reward_position), state
        return values.unflatten(1, (self.num_replicas, *self._reward_shape)).movedim(2, self._reward_position), state

    def weighted(self, values: Tensor, reward_weights: Tensor | None) -> Tensor:
        """What a policy maximises: values with the dimension of a vector reward summed away.

        Args:
            values: [..., D], or [...] for a scalar reward.
            reward_weights: [D]; None sums.
        """
        return weighted_sum(values, reward_weights) if self._reward_shape else values


def pessimistic(values: Tensor, reward_weights: Tensor | None) -> Tensor:
    """Gives the lowest of the replicas.

    Args:
        values: [B, R] or [B, R, D].
        reward_weights: [D]; a dimension with a negative weight takes the highest instead.

    Returns:
        [B] or [B, D].
    """
    if values.shape[1] == 1:
        return values[:, 0]
    if reward_weights is None:
        return values.amin(dim=1)
    sign = reward_weights.sign()
    return (values * sign).amin(dim=1) * sign


def weighted_sum(values: Tensor, reward_weights: Tensor | None) -> Tensor:
    """Gives the one number that a policy is improved by.

    Args:
        values: [..., D], for a vector reward.
        reward_weights: [D]; None sums.

    Returns:
        [...].
    """
    return values.sum(-1) if reward_weights is None else (values * reward_weights).sum(-1)


def action_gradient_loss(value: Tensor, action: Nest, clipping: float | None = None) -> Tensor:
    """The loss -Q(s, a), [B], with its gradient with respect to the action alone: Silver et al. (2014), theorem 1.

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
    # What was added up has the gradient; the number that is reported is the one that is meant.
    return loss - (loss + value).detach()


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


def keep_target_statistics(td_losses: Iterable[Any], info: Any, targets: Callable[[Any], tuple[Any, Tensor]]) -> None:
    """Lets losses with `normalize_target` take in the targets of an update that was made; for `after_update`.

    Args:
        td_losses: `TDLoss` or other losses.
        info: what `calc_loss` got.
        targets: from it, what the losses got: an info, and values to bootstrap from.
    """
    normalizing = [loss for loss in td_losses if getattr(loss, "needs_update_infos", False)]
    if normalizing:
        arguments = targets(require_infos(info, "normalize_target"))
        for loss in normalizing:
            loss.take_targets(*arguments)


def require_infos(info: Any, setting: str) -> Any:
    """`info`; raises `ValueError` if there is none, which `setting` cannot do without."""
    if nest.is_empty(info):
        raise ValueError(
            f"{setting} keeps statistics of every update, but compiled updates do not tell what they computed: leave out "
            f"{setting}, or compile=True"
        )
    return info
