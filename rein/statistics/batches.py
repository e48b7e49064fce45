"""Mean and variance of a batch over all dimensions that its spec does not describe."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Size, Tensor

from rein import nest
from rein.nest import Nest
from rein.specs import TensorSpec


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


@torch.no_grad()
def batch_moments(
    tensors: list[Tensor], leaves: list[Leaf], with_variance: bool
) -> tuple[list[Tensor], list[Tensor]] | None:
    """Averages each tensor over its batch dimensions, in double precision.

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
        batch = tensor.detach().double().reshape(tensor.shape[:outer].numel(), *leaf.shape)
        if batch.shape[0] == 0:
            return None
        if with_variance:
            variance, mean = torch.var_mean(batch, dim=0, correction=0)
            variances.append(variance)
        else:
            mean = batch.mean(dim=0)
        means.append(mean)
    return means, variances
