"""Returns and advantages of transitions: row t is about the action taken at t.

`reward[t]` is what that action earned, `discount[t]` is gamma times the environment's discount on arrival (0 where
the episode terminated), and `next_value[t]` the value of the state it led to. `cut[t]` is True where row t + 1 does not
continue row t: at a time limit the backup then bootstraps from `next_value[t]`; the last row is always cut.
For segments of time steps as environments and replay buffers give them, see `rein.ops.trajectories`.

Rewards may have several dimensions. Tensors with fewer dimensions are broadcast by adding dimensions on the right, so
`discount` [T, B] goes with `reward` [T, B, D], and `reward` [T, B] with `next_value` [T, B, replicas].
Results are targets: no gradient flows through any of them. Who wants gradients uses `rein.ops.reverse_scan`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from rein.ops.scan import append_dims, reverse_scan


@torch.no_grad()
def lambda_return(
    reward: Tensor,
    discount: Tensor,
    next_value: Tensor,
    lam: float,
    cut: Tensor | None = None,
) -> Tensor:
    """Backs up TD(lambda) targets from the end of a segment.

    Sutton & Barto (2018), eq. 12.18.

    Args:
        reward: [T, B] or [T, B, D], earned by the action at t.
        discount: [T, B] or [T, B, D], gamma included; 0 where the episode terminated.
        next_value: [T, B] or [T, B, D], value of the state reached at t + 1.
        lam: 0 is one-step TD, 1 is the Monte Carlo return.
        cut: [T, B], True where row t + 1 belongs to another episode.

    Returns:
        Targets of the broadcast shape; no gradient flows through them.
    """
    check_lambda(lam)
    reward, discount, next_value = broadcast_rows(reward=reward, discount=discount, next_value=next_value)
    # The share of the target that comes from the next target; the rest comes from the next value.
    trace = lam * continuation(reward, cut)
    return reverse_scan(reward + discount * (1 - trace) * next_value, discount * trace)


@torch.no_grad()
def n_step_return(reward: Tensor, discount: Tensor, next_value: Tensor, n: int, cut: Tensor | None = None) -> Tensor:
    """Sums `n` discounted rewards and bootstraps; fewer where the episode or the segment ends earlier.

    Sutton & Barto (2018), eq. 7.1.

    Args:
        reward: [T, B] or [T, B, D], earned by the action at t.
        discount: [T, B] or [T, B, D], gamma included; 0 where the episode terminated.
        next_value: [T, B] or [T, B, D], value of the state reached at t + 1.
        n: number of rewards to sum; 1 is one-step TD.
        cut: [T, B], True where row t + 1 belongs to another episode.

    Returns:
        Targets of the broadcast shape; no gradient flows through them.
    """
    if n < 1:
        raise ValueError(f"n_step_return sums at least one reward, but n={n}")
    reward, discount, next_value = broadcast_rows(reward=reward, discount=discount, next_value=next_value)
    follows = continuation(reward, cut).bool()[:-1]
    target = reward + discount * next_value
    for _ in range(min(n, reward.shape[0]) - 1):
        bootstrap = next_value.clone()
        bootstrap[:-1] = torch.where(follows, target[1:], next_value[:-1])
        target = reward + discount * bootstrap
    return target


def continuation(like: Tensor, cut: Tensor | None) -> Tensor:
    """Marks rows whose successor row continues the same episode.

    Args:
        like: [T, B, ...], gives shape, dtype and device.
        cut: [T, B], True where row t + 1 belongs to another episode.

    Returns:
        [T, B, ...] of ones and zeros; the last row is zero.
    """
    result = torch.ones_like(like)
    result[-1:] = 0
    if cut is not None:
        if cut.shape != like.shape[: cut.ndim]:
            raise ValueError(
                f"cut has shape {tuple(cut.shape)}, expected the leading dimensions of {tuple(like.shape)}"
            )
        result.masked_fill_(append_dims(cut, like.ndim).bool(), 0)
    return result


def broadcast_rows(**tensors: Tensor) -> list[Tensor]:
    """Expands time-major tensors to one shape by adding dimensions on the right.

    Args:
        tensors: each [T, B, ...]; the name serves the error message.

    Returns:
        The tensors in the given order, all of one shape and one floating dtype.
    """
    first, *others = tensors.values()
    is_alike = all(other.shape == first.shape and other.dtype is first.dtype for other in others)
    if is_alike and first.ndim and first.dtype is torch.get_default_dtype():
        return [first, *others]
    ndim = max(tensor.ndim for tensor in tensors.values())
    short = {name: tuple(tensor.shape) for name, tensor in tensors.items() if tensor.ndim < 1}
    if short:
        raise ValueError(f"expected time-major tensors [T, B, ...], got {short}")
    rows = [append_dims(tensor, ndim) for tensor in tensors.values()]
    leading = {row.shape[: min(2, ndim)] for row in rows}
    if len(leading) > 1:
        shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        raise ValueError(f"time and batch dimensions differ: {shapes}")
    dtype = torch.get_default_dtype()
    for row in rows:
        if row.is_floating_point():
            dtype = torch.promote_types(dtype, row.dtype)
    shape = [max(sizes) for sizes in zip(*(row.shape for row in rows), strict=True)]
    return [row.to(dtype).expand(shape) for row in rows]


def check_lambda(lam: float) -> None:
    """Raises ValueError unless `lam` is in [0, 1]."""
    if not 0.0 <= lam <= 1.0:
        raise ValueError(f"lambda must be in [0, 1], got {lam}")
