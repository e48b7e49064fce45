"""How the parts of an agent become one algorithm: states, infos and losses by name."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from rein import nest
from rein.data_structures import AlgStep, LossInfo
from rein.framework import Algorithm, sum_losses
from rein.framework.steps import steps_at_once, steps_in_order
from rein.nest import Nest


class AgentHelper:
    """Keeps which algorithm has which field of the states and infos of an agent."""

    def __init__(self, state_ctor: Callable[..., Any]) -> None:
        """Starts without algorithms.

        Args:
            state_ctor: a NamedTuple class with a field for each algorithm that has a state; `()` by default.
        """
        self._state_ctor = state_ctor
        self._fields: dict[int, str] = {}
        self._specs: dict[str, dict[str, Nest]] = {kind: {} for kind in _STATE_KINDS}

    def register_algorithm(self, alg: Algorithm, alg_field: str) -> None:
        """Gives an algorithm its field.

        Args:
            alg: a part of the agent.
            alg_field: name of its field in the states and infos of the agent.
        """
        self._fields[id(alg)] = alg_field
        for kind, specs in self._specs.items():
            spec = getattr(alg, kind)
            if alg_field in self._state_ctor._fields:  # type: ignore[attr-defined]
                specs[alg_field] = spec
            elif not nest.is_empty(spec):
                raise ValueError(
                    f"{alg.name} is recurrent, but {self._state_ctor} has no field {alg_field!r} for its state"
                )

    def state_specs(self) -> dict[str, Any]:
        """Specs of the states of all three steps, as arguments of `Algorithm`."""
        return {kind: self._state_ctor(**specs) for kind, specs in self._specs.items()}

    def field_of(self, alg: Algorithm) -> str:
        """The field of a registered algorithm."""
        return self._fields[id(alg)]

    def accumulate_loss_info(
        self, algorithms: Sequence[Algorithm], train_info: Any, offline: bool = False, pre_train: bool = False
    ) -> LossInfo:
        """The sum of the losses of the algorithms that have an info; `extra` is a dict by their fields.

        Args:
            algorithms: registered ones.
            train_info: infos of the agent, [T, B, ...].
            offline: whether they come from `train_step_offline`.
            pre_train: whether no online training has happened yet.
        """
        losses = {}
        for alg in algorithms:
            info = getattr(train_info, self.field_of(alg))
            if not nest.is_empty(info):
                loss = alg.calc_loss_offline(info, pre_train) if offline else alg.calc_loss(info)
                losses[self.field_of(alg)] = loss
        return sum_losses(_of_one_shape(losses))

    def after_update(self, algorithms: Sequence[Algorithm], root_inputs: Nest, train_info: Any) -> None:
        """Calls `after_update` of each algorithm with its own info.

        Args:
            algorithms: registered ones.
            root_inputs: what the update was computed from, [T, B, ...].
            train_info: infos of the agent, [T, B, ...]; `()` after a compiled update.
        """
        for alg in algorithms:
            info = () if nest.is_empty(train_info) else getattr(train_info, self.field_of(alg))
            alg.after_update(root_inputs, info)

    def after_train_iter(
        self, algorithms: Sequence[Algorithm], root_inputs: Nest | None, rollout_info: Any | None = None
    ) -> None:
        """Calls `after_train_iter` of each algorithm with its own info.

        Args:
            algorithms: registered ones.
            root_inputs: inputs of the rollout, [T, B, ...]; None if there was none.
            rollout_info: infos of the agent's rollout, [T, B, ...]; None if there was none.
        """
        for alg in algorithms:
            info = None if rollout_info is None else getattr(rollout_info, self.field_of(alg))
            alg.after_train_iter(root_inputs, info)

    @staticmethod
    def accumulate_algorithm_rewards(
        rewards: Sequence[Tensor],
        weights: Sequence[float],
        names: Sequence[str],
        summary_prefix: str,
        summarize_fn: Callable[[str, Tensor], None],
    ) -> Tensor:
        """The weighted sum of rewards.

        Args:
            rewards: tensors of the same shape.
            weights: their factors.
            names: their names in summaries.
            summary_prefix: put in front of the names.
            summarize_fn: called with the name and the tensor of each reward and, if there are several, of "overall".
        """
        if not len(rewards) == len(weights) == len(names):
            raise ValueError(f"{len(rewards)} rewards, {len(weights)} weights, {len(names)} names: give one for each")
        parts = [weight * reward for weight, reward in zip(weights, rewards, strict=True)]
        total = sum(parts[1:], start=parts[0])
        for name, reward in zip(names, rewards, strict=True):
            summarize_fn(f"{summary_prefix}/{name}", reward)
        if len(rewards) > 1:
            summarize_fn(f"{summary_prefix}/overall", total)
        return total


_STATE_KINDS = ("train_state_spec", "rollout_state_spec", "predict_state_spec")


def _of_one_shape(losses: dict[str, LossInfo]) -> dict[str, LossInfo]:
    """Losses that can be added, so that the mean of the sum is the sum of the means.

    Some algorithms have a loss [B] for each sequence where others have [T, B]. It then counts T times at the first step,
    and a loss that is one number already goes to `scalar_loss`.
    """
    shapes = {loss.loss.shape for loss in losses.values() if isinstance(loss.loss, Tensor)}
    if len(shapes) < 2:
        return losses
    shape = max(shapes, key=len)

    def spread(info: LossInfo) -> LossInfo:
        loss = info.loss
        if not isinstance(loss, Tensor) or loss.shape == shape:
            return info
        if loss.ndim == 0:
            scalar = loss if not isinstance(info.scalar_loss, Tensor) else loss + info.scalar_loss
            return info._replace(loss=(), scalar_loss=scalar)
        if loss.shape != shape[1:]:
            raise ValueError(
                f"losses of shapes {sorted(map(tuple, shapes))} cannot be added: give [T, B], [B] or a scalar"
            )
        rows = torch.cat([shape[0] * loss.unsqueeze(0), loss.new_zeros(shape[0] - 1, *loss.shape)])
        return info._replace(loss=rows)

    return {field: spread(info) for field, info in losses.items()}


def train_on_sequences(alg: Algorithm, inputs: Any, state: Nest, rollout_info: Nest, at_once: bool) -> AlgStep:
    """Runs `train_step` of an algorithm whose output others need, over sequences.

    Args:
        alg: what learns.
        inputs: time steps, [B, T, ...].
        state: before the first step, [B, ...]; with `at_once` [B, T, ...] or `()`.
        rollout_info: [B, T, ...].
        at_once: whether no step needs the state after another.

    Returns:
        `output` [B, T, ...] and `info` [T, B, ...].
    """
    if at_once:
        return steps_at_once(alg.train_step, alg.train_state_spec, inputs, state, rollout_info, with_output=True)
    return steps_in_order(alg.train_step, inputs, state, rollout_info, with_output=True)
