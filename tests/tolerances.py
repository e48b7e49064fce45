"""How far apart two results may be that differ only in the order in which they were summed.

Processors, numbers of threads and kernels add in different orders. A sum of `terms` numbers then differs by about
eps * sqrt(terms) of the size of its largest parts, and a chain of `depth` such sums by about sqrt(depth) times that: each
rounding is as often up as down. `MARGIN` times that is allowed, never less than what one sum of a few numbers needs.
A formula that is wrong is wrong by much more. Where even this is too coarse, compute in float64.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

MARGIN = 16.0


def relative_tolerance(dtype: torch.dtype, terms: int = 1, depth: int = 1) -> float:
    """What two orders of summing may differ by, as a share of the largest values.

    Args:
        dtype: in which the sums were made.
        terms: numbers in the longest sum, such as the inputs of a layer.
        depth: sums that follow each other, such as layers, or steps of a recursion.
    """
    return MARGIN * torch.finfo(dtype).eps * math.sqrt(terms * depth)


def assert_close(actual: Any, expected: Any, terms: int = 1, depth: int = 1, size: float | None = None) -> None:
    """Checks that two tensors are equal but for the order of the sums that made them.

    Args:
        actual: tensor, array or number.
        expected: of the same shape and dtype; integers must be equal.
        terms: see `relative_tolerance`.
        depth: see `relative_tolerance`.
        size: of the largest numbers that were added; None: of the largest result. Give it where large parts cancel.
    """
    expected, actual = torch.as_tensor(expected).detach(), torch.as_tensor(actual).detach()
    if not expected.is_floating_point():
        torch.testing.assert_close(actual, expected, rtol=0.0, atol=0.0)
        return
    if size is None:
        finite = expected[torch.isfinite(expected)]
        size = float(finite.abs().max()) if finite.numel() else 0.0
    share = relative_tolerance(expected.dtype, terms, depth)
    torch.testing.assert_close(actual, expected, rtol=share, atol=share * size)


def sums_of(module: nn.Module, steps: int = 1) -> dict[str, int]:
    """`terms` and `depth` of a module: its widest layer, and how many weights an input passes at most.

    Args:
        module: with its parameters.
        steps: times that it is applied to its own results.
    """
    weights: list[Tensor] = [parameter for parameter in module.parameters() if parameter.ndim > 1]
    terms = max((weight[0].numel() for weight in weights), default=1)
    return {"terms": terms, "depth": max(len(weights), 1) * steps}
