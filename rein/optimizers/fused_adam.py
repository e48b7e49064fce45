"""The fused step of Adam without what `torch.optim.Adam` does around it.

Sorting tensors by device and type and looking up settings takes torch longer than the step itself for small networks. On
the host, where there is one device and one type, the kernel can be called as it is; the state is torch's own.
"""

from typing import Any

import torch
from torch import Tensor, optim


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
        if not _is_simple(group) or not all(states) or not all(map(_is_simple_tensor, parameters)):
            return False
        groups.append((group, parameters, states))
    for group, parameters, states in groups:
        if parameters:
            _step(group, parameters, states)
    return True


def _is_simple(group: dict[str, Any]) -> bool:
    unusual = group["amsgrad"] or group["maximize"] or group.get("capturable") or group.get("differentiable")
    return bool(group["fused"]) and not unusual and isinstance(group["lr"], float)


def _is_simple_tensor(parameter: Tensor) -> bool:
    return parameter.is_cpu and parameter.dtype == torch.float32


def _step(group: dict[str, Any], parameters: list[Tensor], states: list[Any]) -> None:
    steps = [state["step"] for state in states]
    beta1, beta2 = group["betas"]
    torch._foreach_add_(steps, 1)
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
