"""The gradient noise scale: how large a batch is worth its cost (McCandlish et al. 2018, arXiv:1812.06162, appendix A.1).

With g the gradient of a batch of b samples and g' that of half of it, unbiased estimates of the squared length of the true
gradient and of the trace of its covariance are

    |G|^2 = 2 |g|^2 - |g'|^2,     S = b (|g'|^2 - |g|^2),

and the noise scale is S / |G|^2 samples. Each is noisy by itself: average them over many summaries before dividing.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from rein.runtime import summary


def summarize_gradient_noise(name: str, loss: Any, valid_masks: Tensor | None, params: Sequence[Parameter]) -> None:
    """Writes the estimates above for one batch; costs two more backward passes.

    Args:
        name: of the algorithm.
        loss: [T, B]; others have no halves, and nothing is written.
        valid_masks: [T, B], or None.
        params: what is optimized.
    """
    if not isinstance(loss, Tensor) or loss.ndim != 2 or loss.shape[1] < 2 or not loss.requires_grad:
        return
    masked = loss if valid_masks is None else loss * valid_masks
    masked = masked[:, : masked.shape[1] // 2 * 2]
    square, variance = gradient_noise(masked, params)
    with summary.scope(name):
        summary.scalar("gradient_noise/squared_gradient", square)
        summary.scalar("gradient_noise/variance", variance)
        summary.scalar("gradient_noise/scale", variance / square)


def gradient_noise(loss: Tensor, params: Sequence[Parameter]) -> tuple[Tensor, Tensor]:
    """The estimates of |G|^2 and S.

    Args:
        loss: [T, B] with even B; every other column is a half of the batch.
        params: what the gradient is taken by.
    """
    halves = [_gradient(loss[:, start::2].mean(), params) for start in (0, 1)]
    whole = (halves[0] + halves[1]) / 2
    of_half = (halves[0].square().sum() + halves[1].square().sum()) / 2
    of_whole = whole.square().sum()
    return 2 * of_whole - of_half, loss.numel() * (of_half - of_whole)


def _gradient(loss: Tensor, params: Sequence[Parameter]) -> Tensor:
    gradients = torch.autograd.grad(loss, params, retain_graph=True, allow_unused=True)
    return torch.cat([g.flatten() for g in gradients if g is not None] or [torch.zeros(1)])
