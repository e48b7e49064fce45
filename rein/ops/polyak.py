"""Moving targets towards sources, as target networks do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn


@torch.no_grad()
def soft_update(source: nn.Module | Iterable[Tensor], target: nn.Module | Iterable[Tensor], tau: float) -> None:
    """Moves each target towards its source, in place: `target += tau * (source - target)`.

    Lillicrap et al. (2016), "Continuous control with deep reinforcement learning", algorithm 1. Of modules,
    parameters are averaged and buffers copied, because averaging running statistics or counters has no meaning.

    Args:
        source: a module, or tensors in the order of `target`.
        target: a module of the same structure, or tensors.
        tau: 0 changes nothing, 1 copies.
    """
    if not 0.0 <= tau <= 1.0:
        raise ValueError(f"tau must be in [0, 1], got {tau}")
    if isinstance(source, nn.Module) != isinstance(target, nn.Module):
        raise TypeError(
            f"source and target must both be modules or both be tensors, got {type(source).__name__} "
            f"and {type(target).__name__}"
        )
    if isinstance(source, nn.Module) and isinstance(target, nn.Module):
        _lerp(list(source.parameters()), list(target.parameters()), tau)
        if tau > 0.0:
            copy_tensors(list(source.buffers()), list(target.buffers()))
    else:
        _lerp(list(source), list(target), tau)  # type: ignore[arg-type]


@torch.no_grad()
def copy_tensors(source: Sequence[Tensor], target: Sequence[Tensor]) -> None:
    """Copies each source into its target, in place.

    Args:
        source: tensors.
        target: tensors of the same shapes, in the same order.
    """
    _check_pairs(source, target)
    if target:
        torch._foreach_copy_(list(target), list(source))


def _lerp(source: list[Tensor], target: list[Tensor], tau: float) -> None:
    _check_pairs(source, target)
    if not all(tensor.is_floating_point() for tensor in target):
        raise TypeError("only floating-point tensors can be averaged; use copy_tensors for the others")
    if target:
        # lerp_ computes the last bit differently from a copy at weight one.
        if tau == 1.0:
            torch._foreach_copy_(target, source)
        else:
            torch._foreach_lerp_(target, source, tau)


def _check_pairs(source: Sequence[Tensor], target: Sequence[Tensor]) -> None:
    if len(source) != len(target):
        raise ValueError(f"{len(source)} source tensors, but {len(target)} target tensors")
    for i, (a, b) in enumerate(zip(source, target, strict=True)):
        if a.shape != b.shape:
            raise ValueError(f"tensor {i} has shape {tuple(a.shape)} in the source but {tuple(b.shape)} in the target")
