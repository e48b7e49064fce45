"""Stack, split and reshape the batch dimensions of nests of tensors."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from rein.nest.structure import (
    Nest,
    assert_same_structure,
    flatten,
    flatten_with_paths,
    map_structure,
)


def stack_nests(nests: Sequence[Nest], dim: int = 0) -> Nest:
    """One nest whose tensors are those of `nests` stacked along a new dimension `dim`."""
    if len(nests) == 1:
        return map_structure(lambda tensor: tensor.unsqueeze(dim), nests[0])
    return map_structure(lambda *tensors: torch.stack(tensors, dim), *nests)


def concat_nests(nests: Sequence[Nest], dim: int = 0) -> Nest:
    """One nest whose tensors are those of `nests` concatenated along dimension `dim`."""
    return map_structure(lambda *tensors: torch.cat(tensors, dim), *nests)


def index_nest(nest: Nest, index: Any) -> Nest:
    """`tensor[index]` for every tensor of `nest`."""
    return map_structure(lambda tensor: tensor[index], nest)


def reshape_batch(nest: Nest, num_dims: int, shape: Sequence[int]) -> Nest:
    """Replaces the first `num_dims` dimensions of every tensor by `shape`; one entry may be -1."""
    return map_structure(lambda t: t.reshape(*shape, *t.shape[num_dims:]), nest)


def batch_nested_tensor(nest: Nest) -> Nest:
    """Adds a leading dimension of one to every tensor."""
    return map_structure(lambda tensor: tensor.unsqueeze(0), nest)


def unbatch_nested_tensor(nest: Nest) -> Nest:
    """Removes the leading dimension, which must be one, from every tensor."""
    for path, tensor in flatten_with_paths(nest):
        if tensor.ndim == 0 or tensor.shape[0] != 1:
            raise ValueError(f"cannot unbatch {path!r} of shape {tuple(tensor.shape)}: first is not 1")
    return map_structure(lambda tensor: tensor.squeeze(0), nest)


def get_nest_size(nest: Nest, dim: int) -> int:
    """The size that all tensors of `nest` have in dimension `dim`."""
    leaves = flatten(nest)
    if not leaves:
        raise ValueError("an empty nest has no size")
    size = leaves[0].shape[dim]
    if any(leaf.shape[dim] != size for leaf in leaves):
        sizes = {path: leaf.shape[dim] for path, leaf in flatten_with_paths(nest)}
        raise ValueError(f"the tensors differ in the size of dimension {dim}: {sizes}")
    return int(size)


def get_nest_batch_size(nest: Nest) -> int:
    """The size that all tensors of `nest` have in their first dimension."""
    return get_nest_size(nest, 0)


def get_nest_shape(nest: Nest) -> torch.Size:
    """The shape of a nest that is a single tensor or whose tensors all have one shape."""
    shapes = {tuple(leaf.shape) for leaf in flatten(nest)}
    if len(shapes) != 1:
        raise ValueError(f"expected tensors of one shape, got {sorted(shapes)}")
    return torch.Size(shapes.pop())


def get_outer_rank(tensors: Nest, specs: Nest) -> int:
    """The number of dimensions that every tensor has in front of its spec's shape.

    Raises:
        ValueError: if a tensor does not end in its spec's shape, has another dtype, or if ranks differ.
    """
    assert_same_structure(tensors, specs)
    ranks: dict[str, int] = {}
    for (path, tensor), spec in zip(flatten_with_paths(tensors), flatten(specs), strict=True):
        rank = tensor.ndim - len(spec.shape)
        if rank < 0 or tensor.shape[rank:] != spec.shape or tensor.dtype != spec.dtype:
            raise ValueError(
                f"{path or 'the tensor'!r} does not match its spec: tensor of shape "
                f"{tuple(tensor.shape)} and {tensor.dtype}, {spec}"
            )
        ranks[path] = rank
    if len(set(ranks.values())) != 1:
        raise ValueError(f"the tensors differ in the number of outer dimensions: {ranks}")
    return next(iter(ranks.values()))


def is_batched_nested_tensors(tensors: Nest, specs: Nest) -> bool:
    """Whether `tensors` have one batch dimension in front of their specs' shapes (else none).

    Raises:
        ValueError: if they have neither none nor one.
    """
    rank = get_outer_rank(tensors, specs)
    if rank not in (0, 1):
        raise ValueError(f"expected no or one batch dimension, found {rank}")
    return rank == 1


def expand_dims_as(x: Tensor, y: Tensor) -> Tensor:
    """`x` with dimensions of one appended until it has as many as `y`, whose shape begins with `x`'s."""
    if y.shape[: x.ndim] != x.shape:
        raise ValueError(f"shape {tuple(y.shape)} does not begin with {tuple(x.shape)}")
    return x.reshape(*x.shape, *(1,) * (y.ndim - x.ndim))
