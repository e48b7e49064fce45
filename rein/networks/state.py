"""Recurrent states: make them, and reset them where an episode begins."""

import torch
from torch import Tensor

from rein import nest
from rein.data_structures import StepType
from rein.nest import Nest


def zero_state(state_spec: Nest, batch_size: int, device: torch.device | None = None) -> Nest:
    """Zeros of [batch_size, ...] for each spec of a state."""

    def zeros(spec: object) -> Tensor:
        return torch.zeros(batch_size, *spec.shape, dtype=spec.dtype, device=device)  # type: ignore[attr-defined]

    return nest.map_structure(zeros, state_spec)


def reset_state(state: Nest, is_first: Tensor, initial: Nest = None) -> Nest:
    """The state with the entries of new episodes replaced by the initial state.

    Args:
        state: nest of [B, ...].
        is_first: [B] bool, True where an episode begins.
        initial: nest of tensors that broadcast with `state`; None: zeros.

    Returns:
        A nest like `state`. Gradient does not flow through what was replaced.
    """

    def reset(tensor: Tensor, start: Tensor | None = None) -> Tensor:
        mask = is_first.reshape(*is_first.shape, *(1,) * (tensor.ndim - is_first.ndim))
        if start is None:
            return tensor.masked_fill(mask, 0)
        return torch.where(mask, start, tensor)

    if initial is None:
        return nest.map_structure(reset, state)
    return nest.map_structure(reset, state, initial)


def reset_state_at_first(state: Nest, step_type: Tensor, initial: Nest = None) -> Nest:
    """The state with the entries at FIRST steps replaced by the initial state.

    Args:
        state: nest of [B, ...].
        step_type: [B] of `StepType`.
        initial: nest of tensors that broadcast with `state`; None: zeros.
    """
    return reset_state(state, step_type == int(StepType.FIRST), initial=initial)
