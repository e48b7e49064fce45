"""Gradients on their way between learners: lists by the group of parameters that an optimizer steps."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import Parameter
from torch.optim import Optimizer

from rein.framework.updating.gradients import NonFiniteLossError

_CLIPPED = ("q_grads", "pi_grads")


def parameters_of(optimizer: Optimizer) -> list[Parameter]:
    """The parameters that an optimizer steps, in their order."""
    return [one for group in optimizer.param_groups for one in group["params"]]


def take_gradients(
    losses: Mapping[str, Tensor], optimizers: Mapping[str, Optimizer], max_grad_norm: float, to_cpu: bool, whose: str
) -> dict[str, list[Any]]:
    """Gradients of losses, which are left in `grad` of the parameters, too.

    Args:
        losses: by group; a group without one has no gradients.
        optimizers: by group.
        max_grad_norm: of critics and of the policy, each; 0 leaves them as they are.
        to_cpu: give arrays, in the place of tensors.
        whose: the learner, for the error.

    Returns:
        Lists in the order of the parameters by group; None where a parameter has no gradient.

    Raises:
        NonFiniteLossError: a loss is not a number, or infinite.
    """
    taken = {}
    for group, optimizer in optimizers.items():
        parameters = parameters_of(optimizer)
        values: Sequence[Tensor | None] = [None] * len(parameters)
        if group in losses:
            if not torch.isfinite(losses[group]):
                raise NonFiniteLossError(f"the loss of {group} of {whose} is {losses[group].item()}")
            values = torch.autograd.grad(losses[group], parameters, retain_graph=True, allow_unused=True)
        for parameter, value in zip(parameters, values, strict=True):
            parameter.grad = value
        if group in losses:
            if max_grad_norm and group in _CLIPPED:
                nn.utils.clip_grad_norm_(parameters, max_grad_norm)
            taken[group] = [_sent(one.grad, to_cpu) for one in parameters]
    return taken


def put_gradients(gradients: Mapping[str, Sequence[Any]], optimizers: Mapping[str, Optimizer], whose: str) -> None:
    """Puts what `take_gradients` gave, here or elsewhere, into `grad` of the parameters.

    Args:
        gradients: lists by group; parameters of a group that is left out get None.
        optimizers: by group.
        whose: the learner, for errors.

    Raises:
        ValueError: groups, numbers or shapes are not those of the parameters.
    """
    unknown = sorted(set(gradients) - set(optimizers))
    if unknown:
        raise ValueError(f"gradients of {unknown}: {whose} has those of {sorted(optimizers)}")
    for name, optimizer in optimizers.items():
        parameters = parameters_of(optimizer)
        values = gradients.get(name, [None] * len(parameters))
        if len(values) != len(parameters):
            raise ValueError(f"{name} has {len(values)} gradients for {len(parameters)} parameters")
        for parameter, value in zip(parameters, values, strict=True):
            parameter.grad = None if value is None else _received(value, parameter)


def _sent(gradient: Tensor | None, to_cpu: bool) -> Any:
    if gradient is None or not to_cpu:
        return gradient
    return gradient.detach().cpu().numpy()


def _received(value: Tensor | np.ndarray, parameter: Parameter) -> Tensor:
    tensor = torch.as_tensor(value).to(parameter)
    if tensor.shape != parameter.shape:
        raise ValueError(f"a gradient of shape {tuple(tensor.shape)} for a parameter of {tuple(parameter.shape)}")
    return tensor
