"""Steps of sampled sequences, for algorithms that evaluate different networks at different steps.

Sequences come as [B, T, ...]. Networks get the steps they are needed at as one batch [B * S, ...], sequence by sequence;
losses get [T, B, ...].
"""

from typing import Any

import torch
from torch import Tensor

from rein import nest
from rein.distributions import map_params
from rein.nest import Nest


def merge_steps(data: Nest, steps: range) -> Nest:
    """Some consecutive steps as one batch.

    Args:
        data: nest of tensors [B, T, ...].
        steps: S of the T steps.

    Returns:
        [B * S, ...]; views where possible.
    """
    if len(steps) == 1:
        return nest.map_structure(lambda tensor: tensor[:, steps.start], data)
    return nest.map_structure(lambda tensor: tensor[:, steps.start : steps.stop].flatten(0, 1), data)


def select_steps(data: Nest, present: range, wanted: range) -> Nest:
    """The part of a merged batch that belongs to some of its steps.

    Args:
        data: nest of tensors and distributions [B * P, ...] of the steps `present`.
        present: P steps.
        wanted: S steps, all among `present`.

    Returns:
        [B * S, ...].
    """
    if wanted == present:
        return data
    begin = wanted.start - present.start

    def select(tensor: Tensor) -> Tensor:
        steps = tensor.reshape(-1, len(present), *tensor.shape[1:])
        return steps[:, begin] if len(wanted) == 1 else steps[:, begin : begin + len(wanted)].flatten(0, 1)

    return map_params(select, data)


def put_steps(data: Nest, steps: range, length: int) -> Nest:
    """A merged batch as time-major sequences, with zeros at steps that it does not have.

    Args:
        data: nest of tensors [B * S, ...].
        steps: the S steps.
        length: T.

    Returns:
        [T, B, ...].
    """

    def put(tensor: Tensor) -> Tensor:
        rows: list[Any] = [tensor.reshape(-1, len(steps), *tensor.shape[1:]).transpose(0, 1)]
        if steps.start > 0:
            rows.insert(0, rows[0].new_zeros(steps.start, *rows[0].shape[1:]))
        if steps.stop < length:
            rows.append(rows[0].new_zeros(length - steps.stop, *rows[-1].shape[1:]))
        return rows[0] if len(rows) == 1 else torch.cat(rows)

    return nest.map_structure(put, data)
