"""How a direction becomes a loss.

Every method of this family computes a direction g [N, D] in which particles x shall descend. The loss sum_d g x, with g a
constant, has the gradient g with respect to x, which flows on to whatever made x. The value of that loss means nothing.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rein import nest
from rein.nest import Nest

LossFunction = Callable[[Any], Nest]
"""From particles [N, D] to losses [N], or to a tuple of tensors with such a field `loss`."""


def propagated_loss(direction: Tensor, x: Tensor) -> Tensor:
    """A loss [N] whose gradient with respect to `x` is `direction`, both [N, D]."""
    return torch.linalg.vecdot(direction.detach(), x)


def loss_and_gradient(loss_func: LossFunction, x: Tensor, context: Callable[[Tensor], Any] | None = None) -> Any:
    """What `loss_func` says of particles, and its gradient there.

    Args:
        loss_func: E.
        x: [N, D] particles.
        context: makes the argument of `loss_func` from the particles; None: the particles themselves.

    Returns:
        What `loss_func` returned, without gradient, and dE/dx [N, D]. Parameters inside of `loss_func` get no gradient.
    """
    point = x.detach().requires_grad_()
    with torch.enable_grad():
        loss = loss_func(point if context is None else context(point))
        value = loss_tensor(loss)
        if not value.requires_grad:
            raise ValueError("the result of loss_func does not depend on its argument: compute it without detach()")
        (gradient,) = torch.autograd.grad(value.sum(), point)
    return nest.map_structure(lambda t: t.detach() if isinstance(t, Tensor) else t, loss), gradient


def loss_tensor(loss: Nest) -> Tensor:
    """The tensor of what a loss function returned."""
    value = loss if isinstance(loss, Tensor) else getattr(loss, "loss", None)
    if not isinstance(value, Tensor):
        raise TypeError(
            f"loss_func returned {type(loss).__name__}: return a tensor [N], or a namedtuple whose field `loss` is one"
        )
    return value
