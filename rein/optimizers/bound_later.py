"""Optimizers that exist before their parameters do.

An optimizer is given to an algorithm as a finished object, `optimizer=rein.optimizers.Adam(lr=3e-4)`, and receives the
algorithm's parameters by `add_param_group` once these have been built. Mixed into an optimizer of torch, `BoundLater`
adds this, gradient clipping, learning-rate schedules and the choice of the fastest kernel.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor
from torch.optim import Optimizer

from rein.ops.clipping import clip_by_global_norm_, clip_by_norm_, clip_by_value_
from rein.runtime.schedules import Changing, Scheduler, as_scheduler, is_number

LearningRate = Changing
_FUSED_DEVICES = frozenset({"cpu", "cuda", "mps", "xpu"})
_OWN_FIELDS = (
    "name",
    "gradient_clipping",
    "clip_by_global_norm",
    "clip_by_value",
    "grad_norm",
    "_lr",
    "_schedules",
    "_settings",
    "_chosen_kernel",
)


class BoundLater(Optimizer):
    """Comes before an optimizer of torch in the bases of a class.

    Attributes:
        name: shown in summaries and in the optimizer info of an algorithm.
        grad_norm: [] norm of all gradients before the last clipping by a norm; None without one.
    """

    has_fused_kernel = True

    # Torch's own, without the wrapper that imports its compiler, a second and a half of work, when one is first called.
    state_dict = inspect.unwrap(Optimizer.state_dict)
    zero_grad = inspect.unwrap(Optimizer.zero_grad)

    def __init__(
        self,
        lr: LearningRate,
        gradient_clipping: float | None,
        clip_by_global_norm: bool,
        clip_by_value: bool,
        name: str | None,
        fused: bool | None,
        foreach: bool | None,
        **settings: Any,
    ) -> None:
        _check_clipping(gradient_clipping, clip_by_global_norm, clip_by_value)
        if fused and not self.has_fused_kernel:
            raise ValueError(f"{type(self).__name__} has no fused kernel: leave out fused=True")
        self.name = name or type(self).__name__
        self.gradient_clipping = gradient_clipping
        self.clip_by_global_norm = clip_by_global_norm
        self.clip_by_value = clip_by_value
        self.grad_norm: Tensor | None = None
        self._lr = lr = lr if is_number(lr) else as_scheduler(lr)
        self._schedules: list[Scheduler | None] = []
        self._settings = settings
        self._chosen_kernel = {"fused": fused, "foreach": foreach}
        initial = float(lr) if is_number(lr) else 0.0
        for value in [initial, *(value for _, value in getattr(lr, "schedule", ()))]:
            self._check_rate(value)
        # torch refuses an empty list of parameters but not an empty group, which is then taken out again.
        super().__init__([{"params": []}], lr=initial, **settings)  # type: ignore[call-arg]
        self.param_groups.clear()
        self._schedules.clear()

    def copy(self, **changes: Any) -> Self:
        """Returns a fresh optimizer without parameters, for another algorithm.

        Args:
            **changes: constructor arguments that shall differ.
        """
        return type(self)(**{**self.settings, **changes})

    @property
    def settings(self) -> dict[str, Any]:
        """The constructor arguments by name."""
        own = {
            "lr": self._lr,
            "gradient_clipping": self.gradient_clipping,
            "clip_by_global_norm": self.clip_by_global_norm,
            "clip_by_value": self.clip_by_value,
            "name": self.name,
            "foreach": self._chosen_kernel["foreach"],
        }
        if self.has_fused_kernel:
            own["fused"] = self._chosen_kernel["fused"]
        return {**own, **self._settings}

    def get_optimizer_info(self) -> dict[str, Any]:
        """Returns name and settings in values that JSON can hold, with the number of bound tensors and elements."""
        plain = {key: value if _is_plain(value) else repr(value) for key, value in self.settings.items()}
        parameters = self.parameters()
        return {
            "optimizer": plain.pop("name"),
            "hypers": plain,
            "num_parameters": len(parameters),
            "num_elements": sum(parameter.numel() for parameter in parameters),
        }

    def parameters(self) -> list[Tensor]:
        """Returns all parameters bound so far."""
        return [parameter for group in self.param_groups for parameter in group["params"]]

    def learning_rates(self) -> list[float]:
        """Returns the present learning rate of each parameter group."""
        self._apply_schedules()
        return [float(group["lr"]) for group in self.param_groups]

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Binds parameters.

        Args:
            param_group: `{"params": parameters}`, with settings that differ from those of the optimizer; its `lr` may
                be a number or a `Scheduler` as well.
        """
        lr = param_group.get("lr", self._lr)
        schedule = None if is_number(lr) else as_scheduler(lr)
        if schedule is not None:
            # Schedules need a run, which there may not be yet; `step` asks them.
            param_group = {**param_group, "lr": 0.0}
        inspect.unwrap(Optimizer.add_param_group)(self, param_group)
        self._schedules.append(schedule)
        self._choose_kernel(self.param_groups[-1])

    def _check_rate(self, lr: float) -> float:
        if not lr >= 0.0:
            raise ValueError(f"{type(self).__name__}: lr is {lr}: a learning rate must not be negative")
        return lr

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Updates the parameters once: schedules, then clipping, then the step of torch.

        Args:
            closure: computes the loss and its gradient anew, if given.

        Returns:
            What `closure` gave.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._apply_schedules()
        self._lay_out_gradients()
        self._clip_gradients()
        self._torch_step()
        return loss

    def advance(self, squares: float | None = None) -> None:
        """What `step()` does, without torch's marks for profilers around it, which cost as much as a small step.

        Args:
            squares: the sum of the squares of all gradients, if it is known.
        """
        if self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks:
            self.step()
            return
        self._apply_schedules()
        self._lay_out_gradients()
        self._clip_gradients(squares)
        self._torch_step()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores what `state_dict` gave; the kernel is chosen for the device of the parameters as they are now."""
        inspect.unwrap(Optimizer.load_state_dict)(self, state_dict)
        for group in self.param_groups:
            self._choose_kernel(group)

    @torch.no_grad()
    def _torch_step(self) -> None:
        # Without what torch wraps around it for hooks and profilers, which ours has already, and for its compiler.
        inspect.unwrap(super().step)(self)  # type: ignore[call-arg]

    def _apply_schedules(self) -> None:
        for group, schedule in zip(self.param_groups, self._schedules, strict=True):
            if schedule is not None:
                group["lr"] = self._check_rate(schedule())

    def _lay_out_gradients(self) -> None:
        """Gives gradients the strides of their parameters, which fused kernels take for granted.

        Automatic differentiation does so by itself; gradients that were put there, from a compiled graph or another
        machine, may differ for weights whose channels are the last dimension in memory.
        """
        for group in self.param_groups:
            for parameter in group["params"]:
                gradient = parameter.grad
                if gradient is None or (gradient.is_contiguous() and parameter.is_contiguous()):
                    continue
                if gradient.stride() != parameter.stride():
                    parameter.grad = torch.empty_like(parameter).copy_(gradient)

    def _clip_gradients(self, squares: float | None = None) -> None:
        limit = self.gradient_clipping
        if limit is None:
            return
        gradients = [parameter.grad for group in self.param_groups for parameter in group["params"]]
        if self.clip_by_value:
            clip_by_value_(gradients, limit)
        elif self.clip_by_global_norm:
            self.grad_norm = clip_by_global_norm_(gradients, limit, squares=squares)
        else:
            self.grad_norm = torch.linalg.vector_norm(clip_by_norm_(gradients, limit))

    def _choose_kernel(self, group: dict[str, Any]) -> None:
        fused, foreach = self._chosen_kernel["fused"], self._chosen_kernel["foreach"]
        if fused is None and foreach is None:
            fused = self.has_fused_kernel and all(
                parameter.is_floating_point() and parameter.device.type in _FUSED_DEVICES
                for parameter in group["params"]
            )
            foreach = not fused
        if self.has_fused_kernel:
            group["fused"] = fused
        group["foreach"] = foreach

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {**state, **{field: self.__dict__[field] for field in _OWN_FIELDS}}


def _check_clipping(limit: float | None, by_global_norm: bool, by_value: bool) -> None:
    if by_global_norm and by_value:
        raise ValueError("clip_by_global_norm and clip_by_value exclude each other: set one of them")
    if limit is None and (by_global_norm or by_value):
        which = "clip_by_global_norm" if by_global_norm else "clip_by_value"
        raise ValueError(f"{which}=True needs a limit: set gradient_clipping to a positive number")
    if limit is not None and not limit > 0.0:
        raise ValueError(f"gradient_clipping must be positive, got {limit}; None turns it off")


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, bool | int | float | str | tuple | list)
