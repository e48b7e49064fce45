"""Bounding gradients, other lists of tensors, and exponents."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

_TINY = 1e-12


@torch.no_grad()
def global_norm(tensors: Iterable[Tensor | None]) -> Tensor:
    """Gives the Euclidean norm of all elements of all tensors together.

    Args:
        tensors: of any shapes on one device; None is skipped.

    Returns:
        [] norm, at least single precision; 0 if there is no tensor.
    """
    present = [tensor for tensor in tensors if tensor is not None]
    return torch.linalg.vector_norm(_norms(present)) if present else torch.zeros(())


@torch.no_grad()
def clip_by_global_norm_(
    tensors: Iterable[Tensor | None],
    max_norm: float,
    error_if_nonfinite: bool = False,
    squares: float | None = None,
) -> Tensor:
    """Shrinks all tensors by one factor, in place, so that their joint norm is at most `max_norm`.

    Pascanu et al. (2013), "On the difficulty of training recurrent neural networks", section 3.2. No number leaves a
    GPU, so nothing waits for it.

    Args:
        tensors: of any shapes on one device; None is skipped.
        max_norm: bound on the Euclidean norm of all elements together.
        error_if_nonfinite: raise ValueError instead of spreading NaN; this waits for the device.
        squares: the sum of the squares of all elements, if it is known; nothing is computed on the device then.

    Returns:
        [] the norm before clipping.
    """
    _check_bound("max_norm", max_norm)
    present = [tensor for tensor in tensors if tensor is not None]
    if squares is not None and math.isfinite(squares):
        known = np.float32(math.sqrt(squares))  # Rounded as if torch had found it.
        if present and known > max_norm:
            torch._foreach_mul_(present, min(1.0, float(np.float32(1.0) / known * np.float32(max_norm))))
        return torch.tensor(known)
    norm = global_norm(present)
    if error_if_nonfinite and not bool(torch.isfinite(norm)):
        raise ValueError(f"the global norm of {len(present)} tensors is {norm.item()}")
    # On the host the number is at hand: most gradients are short enough, and stay as they are.
    if present and not (norm.is_cpu and norm.item() <= max_norm):
        factor = norm_factor(norm, max_norm)
        torch._foreach_mul_(present, factor.item() if factor.is_cpu else factor)
    return norm


@torch.no_grad()
def clip_by_norm_(tensors: Iterable[Tensor | None], max_norm: float) -> Tensor:
    """Shrinks each tensor by itself, in place, so that its own norm is at most `max_norm`.

    Args:
        tensors: N tensors of any shapes on one device; None is skipped.
        max_norm: bound on the Euclidean norm of each tensor.

    Returns:
        [N] the norms before clipping.
    """
    _check_bound("max_norm", max_norm)
    present = [tensor for tensor in tensors if tensor is not None]
    if not present:
        return torch.zeros(0)
    norms = _norms(present)
    torch._foreach_mul_(present, list(norm_factor(norms, max_norm).unbind()))
    return norms


@torch.no_grad()
def clip_by_value_(tensors: Iterable[Tensor | None], max_value: float) -> None:
    """Limits each element to [-max_value, max_value], in place.

    Args:
        tensors: of any shapes; None is skipped.
        max_value: bound on the magnitude of each element.
    """
    _check_bound("max_value", max_value)
    present = [tensor for tensor in tensors if tensor is not None]
    if present:
        torch._foreach_clamp_min_(present, -max_value)
        torch._foreach_clamp_max_(present, max_value)


def norm_factor(norm: Tensor, max_norm: float) -> Tensor:
    """Gives what to multiply something by so that its norm is at most `max_norm`.

    Args:
        norm: [...] Euclidean norms.
        max_norm: bound on each.

    Returns:
        [...] factors, at most 1.
    """
    return (max_norm / norm.clamp(min=_TINY)).clamp(max=1.0)


def _norms(tensors: list[Tensor]) -> Tensor:
    # Half precision overflows at 65504, so its norms are taken in single precision.
    wide = [t.float() if t.dtype in (torch.float16, torch.bfloat16) else t for t in tensors]
    norms = torch._foreach_norm(wide, 2.0)
    return torch.stack([norm.to(norms[0].dtype) for norm in norms])


def _check_bound(name: str, bound: float) -> None:
    if not bound > 0.0:
        raise ValueError(f"{name} must be positive, got {bound}")


def clipped_exp(value: Tensor, value_min: float = -20.0, value_max: float = 2.0) -> Tensor:
    """Gives exp of a value within bounds, for instance a standard deviation that neither vanishes nor explodes.

    Args:
        value: [...] exponents; those outside the bounds get no gradient.
        value_min: smallest exponent.
        value_max: largest exponent.

    Returns:
        [...] positive numbers.
    """
    return value.clamp(value_min, value_max).exp()
