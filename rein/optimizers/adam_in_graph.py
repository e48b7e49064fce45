"""The step of `Adam`, with clipping, as operations on tensors: for graphs that make an update and its step at once.

The state stays where torch keeps it, so the same optimizer steps in a graph at one time and by its own kernel at another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rein.ops.adam import adam_step
from rein.ops.clipping import norm_factor
from rein.optimizers.fused_adam import counts_of, is_simple, is_simple_tensor
from rein.optimizers.torch_optimizers import Adam

_NOT_UNROLLED = 16


def computed_once(scalar: Tensor) -> Tensor:
    """A number [] that a graph computes once, instead of anew for every few elements of what it is used for.

    Inductor repeats what leads to a scalar wherever it is needed, but for reductions of more elements than it unrolls.
    """
    return scalar.expand(_NOT_UNROLLED).amax(0)


def has_hooks(optimizer: Any) -> bool:
    """Whether somebody wants to be called at each step of an optimizer of torch."""
    return bool(optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks)


class Stepped(NamedTuple):
    """What a step makes, in the order of the parameters."""

    parameters: list[Tensor]
    kept: list[Tensor]
    """Averages, see `AdamInGraph.kept`."""
    norm: Tensor
    """[] of the gradients before clipping."""


class AdamInGraph:
    """One `Adam` whose steps can be made in a graph: all its parameters move at each step, or none does.

    Attributes:
        optimizer: whose settings and state are used.
        parameters: all that it handles.
        last_rates: what `rates` gave last.
    """

    def __init__(self, optimizer: Adam) -> None:
        """Keeps the optimizer; ask `is_possible` first."""
        self.optimizer = optimizer
        self.parameters: list[Any] = optimizer.parameters()
        self.last_rates = torch.zeros(len(optimizer.param_groups), 2, device="cpu")
        self._written: np.ndarray = self.last_rates.numpy()
        self._source: object = None
        self._kept: list[Tensor] = []
        self._due: list[Any] = []

    @classmethod
    def for_all(cls, optimizers: Sequence[Any]) -> list[AdamInGraph]:
        """What makes the steps of all optimizers of an algorithm; empty where one of them is another or has hooks."""
        return [cls(optimizer) for optimizer in optimizers] if all(map(cls.is_possible, optimizers)) else []

    @staticmethod
    def is_possible(optimizer: object) -> bool:
        """Whether a graph can make the steps of an optimizer."""
        if type(optimizer) is not Adam or has_hooks(optimizer):
            return False
        groups = optimizer.param_groups
        return all(is_simple(group) and all(map(is_simple_tensor, group["params"])) for group in groups)

    def kept(self) -> list[Tensor]:
        """Averages of the gradients of all parameters, then of their squares; those of the optimizer, not copies."""
        if self.optimizer.state is not self._source:  # Loading a state puts another one there.
            states = self._states()
            self._kept = [state["exp_avg"] for state in states] + [state["exp_avg_sq"] for state in states]
            self._source = self.optimizer.state
        return self._kept

    def rates(self) -> Tensor | None:
        """[groups, 2] step size and correction of the next step, by the schedule of now; None if steps were not in step.

        The tensor is written anew by the next call.
        """
        self.kept()  # From the first step on there is a state.
        self.optimizer._apply_schedules()
        self._due = [self._counts(group) for group in self.optimizer.param_groups]
        for index, (group, counts) in enumerate(zip(self.optimizer.param_groups, self._due, strict=True)):
            if not counts.are_equal:
                return None
            step = counts.together[0].item() + 1.0
            beta1, beta2 = group["betas"]
            self._written[index, 0] = group["lr"] / (1.0 - beta1**step)
            self._written[index, 1] = math.sqrt(1.0 - beta2**step)
        return self.last_rates

    def made(self, norm: Tensor) -> None:
        """Counts a step that a graph has made with the last `rates`.

        Args:
            norm: [] of its gradients before clipping.
        """
        for counts in self._due:
            counts.together.add_(1)
        if self.optimizer.gradient_clipping is not None and not self.optimizer.clip_by_value:
            self.optimizer.grad_norm = norm

    def step(
        self,
        parameters: Sequence[Tensor],
        gradients: Sequence[Tensor],
        squares: Sequence[Tensor],
        kept: Sequence[Tensor],
        rates: Tensor,
    ) -> Stepped:
        """The next step, with nothing changed.

        Args:
            parameters: as they are, in the order of the optimizer.
            gradients: of these.
            squares: [] sum of the squares of each gradient.
            kept: see `kept`.
            rates: see `rates`.
        """
        of_each = torch.stack(list(squares))
        settings = [(group, rates[i]) for i, group in enumerate(self.optimizer.param_groups) for _ in group["params"]]
        means, roots = kept[: len(gradients)], kept[len(gradients) :]
        columns = zip(parameters, self._clipped(gradients, of_each), means, roots, settings, strict=True)
        stepped = [
            adam_step(
                parameter, gradient, mean, root, rate[0], rate[1], group["betas"], group["eps"], group["weight_decay"]
            )
            for parameter, gradient, mean, root, (group, rate) in columns
        ]
        moved, new_means, new_roots = (list(one) for one in zip(*stepped, strict=True))
        return Stepped(moved, new_means + new_roots, of_each.sum().sqrt())

    def _clipped(self, gradients: Sequence[Tensor], squares: Tensor) -> Sequence[Tensor]:
        """Gradients of which `squares` has the sum of the squares of each, as `BoundLater` clips them."""
        limit = self.optimizer.gradient_clipping
        if limit is None:
            return gradients
        if self.optimizer.clip_by_value:
            return [gradient.clamp(-limit, limit) for gradient in gradients]
        if self.optimizer.clip_by_global_norm:
            factor = computed_once(norm_factor(squares.sum().sqrt(), limit))
            return [gradient * factor for gradient in gradients]
        factors = map(computed_once, norm_factor(squares.sqrt(), limit).unbind())
        return [gradient * factor for gradient, factor in zip(gradients, factors, strict=True)]

    def _states(self) -> list[dict[str, Tensor]]:
        states = [self.optimizer.state[parameter] for parameter in self.parameters]
        for parameter, state in zip(self.parameters, states, strict=True):
            if not state:  # As torch begins.
                state["step"] = torch.zeros((), dtype=torch.float32, device="cpu")
                state["exp_avg"] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
                state["exp_avg_sq"] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
        return states

    def _counts(self, group: dict[str, Any]) -> Any:
        parameters = group["params"]
        return counts_of(self.optimizer, parameters, [self.optimizer.state[one] for one in parameters])
