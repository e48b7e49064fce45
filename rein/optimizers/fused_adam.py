"""The fused step of Adam without what `torch.optim.Adam` does around it.

Sorting tensors by device and type and looking up settings takes torch longer than the step itself for small networks. On
the host, where there is one device and one type, the kernel can be called as it is; the state is torch's own. The numbers
of steps, which torch keeps in a tensor for each parameter, become views of one, which is counted up at once.
"""

from operator import is_
from typing import Any, NamedTuple

import torch
from torch import Tensor, optim


class Counts(NamedTuple):
    """Numbers of steps of the parameters of a group."""

    together: Tensor
    """[N]"""
    views: list[Tensor]
    """[] each, what the state of the optimizer has."""
    are_equal: bool


@torch.no_grad()
def fused_adam_step(optimizer: optim.Adam) -> bool:
    """Makes one step of all parameters.

    Args:
        optimizer: whose groups and state are used.

    Returns:
        False if nothing was done, because something is needed that only torch's own step does: other kernels, other
        devices, a state that is not there yet.
    """
    groups = []
    for group in optimizer.param_groups:
        parameters = [p for p in group["params"] if p.grad is not None]
        states = [optimizer.state.get(p) for p in parameters]
        if not is_simple(group) or not all(states) or not all(map(is_simple_tensor, parameters)):
            return False
        groups.append((group, parameters, states))
    for group, parameters, states in groups:
        if parameters:
            _step(optimizer, group, parameters, states)
    return True


def is_simple(group: dict[str, Any]) -> bool:
    """Whether a group wants nothing that only torch's own step does."""
    unusual = group["amsgrad"] or group["maximize"] or group.get("capturable") or group.get("differentiable")
    return bool(group["fused"]) and not unusual and isinstance(group["lr"], float)


def is_simple_tensor(parameter: Tensor) -> bool:
    """Whether the kernel for the host is made for a parameter."""
    return parameter.is_cpu and parameter.dtype == torch.float32


def _step(optimizer: optim.Adam, group: dict[str, Any], parameters: list[Tensor], states: list[Any]) -> None:
    steps = _counted_up(optimizer, group, parameters, states)
    beta1, beta2 = group["betas"]
    torch._fused_adam_(
        parameters,
        [p.grad for p in parameters if p.grad is not None],
        [state["exp_avg"] for state in states],
        [state["exp_avg_sq"] for state in states],
        [],
        steps,
        lr=group["lr"],
        beta1=beta1,
        beta2=beta2,
        weight_decay=group["weight_decay"],
        eps=group["eps"],
        amsgrad=False,
        maximize=False,
        grad_scale=None,
        found_inf=None,
    )


def _counted_up(
    optimizer: optim.Adam, group: dict[str, Any], parameters: list[Tensor], states: list[Any]
) -> list[Tensor]:
    """Adds one to the numbers of steps, and returns them."""
    if len(parameters) < len(group["params"]):
        # They are not equal any more: looked at again when all are stepped.
        optimizer.__dict__.setdefault("_counts", {}).pop(group["params"][0], None)
        steps = [state["step"] for state in states]
        torch._foreach_add_(steps, 1)
        return steps
    found = counts_of(optimizer, parameters, states)
    found.together.add_(1)
    return found.views


def counts_of(optimizer: optim.Adam, parameters: list[Tensor], states: list[Any]) -> Counts:
    """The numbers of steps of all parameters of a group, in one tensor from here on.

    Args:
        optimizer: that has made the steps.
        parameters: of the group.
        states: what the optimizer keeps of each.
    """
    # By the first parameter of a group.
    counts: dict[Tensor, Counts] = optimizer.__dict__.setdefault("_counts", {})
    found, steps = counts.get(parameters[0]), [state["step"] for state in states]
    # Loading a state puts other tensors there.
    if found is None or len(found.views) != len(steps) or not all(map(is_, found.views, steps)):
        together = torch.stack(steps)
        found = Counts(together, list(together.unbind()), bool((together == together[0]).all()))
        counts[parameters[0]] = found
        for state, view in zip(states, found.views, strict=True):
            state["step"] = view
    return found
