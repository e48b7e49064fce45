"""The one recurrence under every return, advantage and trace: `y[t] = x[t] + decay[t] * y[t + 1]`."""

from __future__ import annotations

import torch
from torch import Tensor

_KERNEL_DTYPES = (torch.float32, torch.float64)


def reverse_scan(increment: Tensor, decay: Tensor) -> Tensor:
    """Accumulates `y[t] = increment[t] + decay[t] * y[t + 1]`, starting from zero after the end.

    Sums are carried in double precision whatever the dtype. CPU tensors that need no gradient go through
    a compiled loop, all others through torch operations that autograd can follow.

    Args:
        increment: [T, ...].
        decay: [T, ...], broadcastable to `increment` by adding dimensions on the right.

    Returns:
        [T, ...] of the dtype of `increment`; differentiable in both arguments.
    """
    decay = append_dims(decay, increment.ndim).expand_as(increment)
    needs_grad = torch.is_grad_enabled() and (increment.requires_grad or decay.requires_grad)
    is_recorded = torch.compiler.is_compiling() or type(increment) is not Tensor  # Tensors without data, for instance.
    if increment.device.type != "cpu" or needs_grad or is_recorded:
        return _reverse_scan_torch(increment, decay)
    return _reverse_scan_numba(increment.detach(), decay.detach())


def append_dims(x: Tensor, ndim: int) -> Tensor:
    """Views `x` with unit dimensions added on the right until it has `ndim` of them.

    Args:
        x: [A, B, ...].
        ndim: number of dimensions wanted.

    Returns:
        [A, B, ..., 1, 1], sharing the storage of `x`.
    """
    if x.ndim > ndim:
        raise ValueError(f"a tensor of shape {tuple(x.shape)} cannot be viewed with {ndim} dimensions")
    return x if x.ndim == ndim else x.reshape(x.shape + (1,) * (ndim - x.ndim))


def _reverse_scan_torch(increment: Tensor, decay: Tensor) -> Tensor:
    # Double precision everywhere except on Apple GPUs, which have none.
    wide = torch.float32 if increment.device.type == "mps" else torch.float64
    terms, decays = increment.to(wide).unbind(0), decay.to(wide).unbind(0)
    if not terms:
        return increment.clone()
    carry = terms[-1]
    rows = [carry]
    for term, factor in zip(reversed(terms[:-1]), reversed(decays[:-1]), strict=True):
        carry = torch.addcmul(term, factor, carry)
        rows.append(carry)
    rows.reverse()
    return torch.stack(rows).to(increment.dtype)


def _reverse_scan_numba(increment: Tensor, decay: Tensor) -> Tensor:
    from rein.ops import _kernels_numba

    shape, dtype = increment.shape, increment.dtype
    kernel_dtype = dtype if dtype in _KERNEL_DTYPES else torch.float32
    rows = (shape[0], shape[1:].numel())
    terms = increment.to(kernel_dtype).reshape(rows).contiguous()
    decays = decay.to(kernel_dtype).reshape(rows).contiguous()
    out = torch.empty(rows, dtype=kernel_dtype, device="cpu")
    _kernels_numba.reverse_scan(terms.numpy(), decays.numpy(), out.numpy())
    return out.reshape(shape).to(dtype)
