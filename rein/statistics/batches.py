"""Mean and variance of a batch over all dimensions that its spec does not describe.

A step of a few environments is so little data that calling torch's operations costs several times what they compute. Small
tensors on the host are taken as arrays, which share their memory; what is computed of them is written once, with operators
that arrays and tensors have alike.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Size, Tensor

from rein import nest
from rein.nest import Nest
from rein.specs import TensorSpec

Values: TypeAlias = Any
"""A tensor, or an array."""

MOST_ON_HOST = 4096
"""Numbers in a tensor that is taken as an array."""


class Leaf(NamedTuple):
    """One tensor of a nest.

    Attributes:
        path: dotted, for messages and summaries; empty if the nest is a single tensor.
        shape: without batch dimensions.
        dtype: of averages and normalized values: the spec's, or torch's default if the spec is of integers.
    """

    path: str
    shape: Size
    dtype: torch.dtype


def leaves_of(tensor_spec: Nest) -> list[Leaf]:
    """Returns the leaves of a nest of specs.

    Args:
        tensor_spec: nest of TensorSpec.
    """
    leaves = []
    for path, spec in nest.flatten_with_paths(tensor_spec):
        if not isinstance(spec, TensorSpec):
            raise TypeError(f"expected a nest of TensorSpec, got {spec!r} at {path or 'the root'!r}")
        dtype = spec.dtype if spec.dtype.is_floating_point else torch.get_default_dtype()
        leaves.append(Leaf(path, spec.shape, dtype))
    return leaves


def is_small_on_host(tensor: Tensor) -> bool:
    """Whether a tensor is taken as an array: it is small, on the host, has no gradient, and no graph is being recorded."""
    return (
        type(tensor) is Tensor
        and tensor.is_cpu
        and not tensor.requires_grad
        and tensor.numel() <= MOST_ON_HOST
        and tensor.dtype in _NUMPY_FLOATS
        and not torch.compiler.is_compiling()
    )


_NUMPY_FLOATS: dict[torch.dtype, Any] = {torch.float32: np.float32, torch.float64: np.float64}


def as_dtype(values: Values, dtype: torch.dtype) -> Values:
    """The values in another floating dtype."""
    if isinstance(values, Tensor):
        return values.to(dtype)
    return values.astype(_NUMPY_FLOATS[dtype], copy=False)


def batch_moments(
    tensors: list[Tensor], leaves: list[Leaf], with_variance: bool
) -> tuple[list[Values], list[Values]] | None:
    """Averages each tensor over its batch dimensions, in double precision and without gradient.

    Args:
        tensors: each of shape [..., *leaf.shape].
        leaves: what the tensors should look like.
        with_variance: whether population variances are wanted too.

    Returns:
        Means and variances (none if not wanted), or None if a batch is empty and so says nothing.
    """
    means, variances = [], []
    for tensor, leaf in zip(tensors, leaves, strict=True):
        outer = tensor.ndim - len(leaf.shape)
        if outer < 0 or tensor.shape[outer:] != leaf.shape:
            where = f" at {leaf.path!r}" if leaf.path else ""
            raise ValueError(
                f"expected batch dimensions followed by {tuple(leaf.shape)}{where}, got shape {tuple(tensor.shape)}"
            )
        size = tensor.shape[:outer].numel()
        if size == 0:
            return None
        mean, variance = _moments(tensor, (size, *leaf.shape), with_variance)
        means.append(mean)
        if with_variance:
            variances.append(variance)
    return means, variances


def _moments(tensor: Tensor, shape: tuple[int, ...], with_variance: bool) -> tuple[Values, Values | None]:
    if is_small_on_host(tensor):
        batch: NDArray[Any] = tensor.numpy().astype(np.float64).reshape(shape)
        average = np.add.reduce(batch, 0) / shape[0]
        if not with_variance:
            return average, None
        batch -= average
        batch *= batch
        return average, np.add.reduce(batch, 0) / shape[0]
    wide = tensor.detach().double().reshape(shape)
    if not with_variance:
        return wide.mean(dim=0), None
    variance, mean = torch.var_mean(wide, dim=0, correction=0)
    return mean, variance
