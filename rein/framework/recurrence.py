"""Recurrent states of a batch of environments."""

from torch import Tensor

from rein import nest
from rein.nest import Nest


def initial_state(state_spec: Nest, batch_size: int) -> Nest:
    """Zeros [batch_size, ...] for every spec."""
    return nest.map_structure(lambda spec: spec.zeros((batch_size,)), state_spec)


def reset(state: Nest, initial: Nest, is_first: Tensor) -> Nest:
    """`state`, replaced by `initial` where an episode begins.

    Args:
        state: nest of tensors [B, ...]; `()` costs nothing.
        initial: nest of tensors [B, ...].
        is_first: bool [B].
    """
    if nest.is_empty(state):
        return state
    return nest.map_structure(lambda s, i: i.where(nest.expand_dims_as(is_first, s), s), state, initial)
