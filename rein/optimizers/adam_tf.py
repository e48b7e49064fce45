"""Adam with the place of epsilon that TensorFlow uses."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from rein.config import configurable
from rein.optimizers.bound_later import LearningRate
from rein.optimizers.torch_optimizers import Adam


@configurable
class AdamTF(Adam):
    """Adam whose epsilon is added before bias correction ("epsilon hat" in section 2 of Kingma & Ba 2015).

    The step is `lr * sqrt(1 - beta2^t) / (1 - beta1^t) * m / (sqrt(v) + eps)`. Published settings with a large epsilon
    that come from TensorFlow mean this one; in the first steps it damps much more than torch's.

    Args:
        lr: learning rate or its schedule.
        betas: decay rates of the averages of the gradient and of its square.
        eps: added to the root of the average square, before bias correction.
        weight_decay: weight of the L2 penalty, added to the gradient.
        amsgrad: whether to divide by the largest average square so far (Reddi et al. 2018).
        gradient_clipping: limit for the gradients; None for no clipping.
        clip_by_global_norm: limits the norm of all gradients together; by default each tensor's own norm is limited.
        clip_by_value: limits each element instead.
        fused: whether to use fused kernels; by default where the device has them.
        foreach: whether to use kernels over lists of tensors; by default where there are no fused ones.
        name: shown in summaries.
    """

    def __init__(
        self,
        lr: LearningRate = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-7,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        gradient_clipping: float | None = None,
        clip_by_global_norm: bool = False,
        clip_by_value: bool = False,
        fused: bool | None = None,
        foreach: bool | None = None,
        name: str | None = None,
    ) -> None:
        self._step_counts: dict[Tensor, int] = {}
        super().__init__(
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            gradient_clipping=gradient_clipping,
            clip_by_global_norm=clip_by_global_norm,
            clip_by_value=clip_by_value,
            fused=fused,
            foreach=foreach,
            name=name,
        )

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores what `state_dict` gave."""
        self._step_counts = {}
        super().load_state_dict(state_dict)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._step_counts = {}
        super().__setstate__(state)  # type: ignore[no-untyped-call]

    def _torch_step(self) -> None:
        # Torch's step with eps / sqrt(1 - beta2^t) is the same as TensorFlow's with eps, so its kernels serve.
        groups = self.param_groups
        self.param_groups = [part for group in groups for part in self._parts_by_step_count(group)]
        try:
            super()._torch_step()
        finally:
            self.param_groups = groups

    def _parts_by_step_count(self, group: dict[str, Any]) -> list[dict[str, Any]]:
        """Returns the group cut into parameters that have made the same number of steps (nearly always one part)."""
        parts: dict[int, list[Tensor]] = {}
        for parameter in group["params"]:
            if parameter.grad is not None:
                count = self._step_count(parameter) + 1
                self._step_counts[parameter] = count
                parts.setdefault(count, []).append(parameter)
        beta2 = group["betas"][1]
        return [
            {**group, "params": params, "eps": group["eps"] / math.sqrt(1.0 - beta2**count)}
            for count, params in parts.items()
        ]

    def _step_count(self, parameter: Tensor) -> int:
        count = self._step_counts.get(parameter)
        if count is None:
            state = self.state.get(parameter)
            count = int(state["step"]) if state else 0
        return count
