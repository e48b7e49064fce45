"""From collected data to minibatches: the one place where batch-major data turns time-major.

Replay buffers and preprocessing use [B, T, ...]; algorithms learn from [T, B, ...].
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from rein import nest
from rein.nest import Nest


def batch_major(data: Nest) -> Nest:
    """[T, B, ...] as [B, T, ...], and the other way round; views."""
    return nest.map_structure(lambda tensor: tensor.transpose(0, 1), data)


time_major = batch_major


def sequences(data: Nest, length: int) -> Nest:
    """Cuts [B, T, ...] into consecutive sequences [B * T / length, length, ...].

    Args:
        data: nest of tensors [B, T, ...].
        length: steps per sequence; T must be a multiple.
    """
    steps = nest.get_nest_size(data, 1)
    if steps % length != 0:
        raise ValueError(f"{steps} steps cannot be cut into sequences of {length}: make mini_batch_length divide them")
    return nest.map_structure(lambda tensor: tensor.reshape(-1, length, *tensor.shape[2:]), data)


def shuffled(data: Nest, size: int | None) -> Iterator[tuple[Nest, Tensor]]:
    """One pass over the sequences of `data` in random order.

    Args:
        data: nest of tensors [N, L, ...].
        size: sequences per minibatch; the last one may have fewer. None is all at once.

    Yields:
        A minibatch [size, L, ...] and the int64 indices of its sequences, [size].
    """
    count = nest.get_nest_batch_size(data)
    leaves, spec = nest.flatten(data), nest.structure_of(data)
    order = torch.randperm(count)
    for begin in range(0, count, size or count):
        index = order[begin : begin + (size or count)]
        yield spec.unflatten([leaf.index_select(0, index) for leaf in leaves]), index
