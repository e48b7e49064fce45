"""The step of Adam as a pure function; what optimizers do in place is in `rein.optimizers`."""

from __future__ import annotations

import torch
from torch import Tensor


def adam_step(
    parameter: Tensor,
    gradient: Tensor,
    mean: Tensor,
    square: Tensor,
    step_size: Tensor | float,
    root_correction: Tensor | float,
    betas: tuple[float, float],
    eps: float,
    weight_decay: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gives a parameter and the averages that belong to it after one step.

    Kingma & Ba (2015), algorithm 1, with the bias of the averages corrected by two numbers: of step t and learning rate r,
    `step_size` is r / (1 - beta1^t) and `root_correction` is (1 - beta2^t)^(1/2).

    Args:
        parameter: [...] before the step.
        gradient: [...] of the loss.
        mean: [...] running average of gradients.
        square: [...] running average of their squares.
        step_size: [] corrected learning rate.
        root_correction: [] what the root of `square` is divided by.
        betas: decay rates of the averages.
        eps: added to the corrected root.
        weight_decay: weight of the L2 penalty, added to the gradient.

    Returns:
        [...] each: parameter, mean and square.
    """
    beta1, beta2 = betas
    if weight_decay:
        gradient = gradient + weight_decay * parameter
    mean = beta1 * mean + (1.0 - beta1) * gradient
    square = beta2 * square + (1.0 - beta2) * gradient * gradient
    return parameter - step_size * mean / (torch.sqrt(square) / root_correction + eps), mean, square
