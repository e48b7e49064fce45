"""RMSprop with the place of epsilon and the start that TensorFlow has."""

from __future__ import annotations

import torch
from torch import Tensor

from rein.config import configurable
from rein.optimizers.bound_later import LearningRate
from rein.optimizers.torch_optimizers import RMSprop


@configurable
class RMSpropTF(RMSprop):
    """RMSprop whose epsilon is inside the root, and whose average square begins at 1 instead of 0.

    The step is `lr * g / sqrt(v + eps)` with `v` from 1. Published settings of A2C mean this one: torch's takes much larger
    first steps.

    Args:
        lr: learning rate or its schedule.
        alpha: decay rate of the average square.
        eps: added to the average square.
        weight_decay: weight of the L2 penalty, added to the gradient.
        gradient_clipping: limit for the gradients; None for no clipping.
        clip_by_global_norm: limits the norm of all gradients together; by default each tensor's own norm is limited.
        clip_by_value: limits each element instead.
        name: shown in summaries.
    """

    def __init__(
        self,
        lr: LearningRate = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        gradient_clipping: float | None = None,
        clip_by_global_norm: bool = False,
        clip_by_value: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(
            lr,
            alpha,
            eps,
            weight_decay,
            gradient_clipping=gradient_clipping,
            clip_by_global_norm=clip_by_global_norm,
            clip_by_value=clip_by_value,
            name=name,
        )

    @property
    def settings(self) -> dict[str, object]:
        """The constructor arguments by name."""
        given = super().settings
        return {key: value for key, value in given.items() if key not in ("momentum", "centered", "foreach")}

    @torch.no_grad()
    def _torch_step(self) -> None:
        for group in self.param_groups:
            bound = [parameter for parameter in group["params"] if parameter.grad is not None]
            if not bound:
                continue
            gradients: list[Tensor] = [parameter.grad for parameter in bound]
            if group["weight_decay"]:
                gradients = list(torch._foreach_add(gradients, bound, alpha=group["weight_decay"]))
            squares = [self._square(parameter) for parameter in bound]
            torch._foreach_mul_(squares, group["alpha"])
            torch._foreach_addcmul_(squares, gradients, gradients, value=1.0 - group["alpha"])
            roots = torch._foreach_sqrt(torch._foreach_add(squares, group["eps"]))
            torch._foreach_addcdiv_(bound, gradients, roots, value=-group["lr"])

    def _square(self, parameter: Tensor) -> Tensor:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.zeros(())
            state["square_avg"] = torch.ones_like(parameter)
        state["step"] += 1
        square: Tensor = state["square_avg"]
        return square
