"""Combine the tensors of a nest into one."""

import torch
from torch import Tensor

from rein import nest
from rein.config import configurable
from rein.nest import Nest
from rein.networks.layers.initializers import Activation, identity
from rein.networks.layers.layer import Layer


class NestCombiner(Layer):
    """Makes one tensor of a nest of tensors; subclasses combine the list of leaves."""

    def combine(self, tensors: list[Tensor]) -> Tensor:
        """One tensor from the leaves, in the order of `nest.flatten`."""
        raise NotImplementedError

    def forward(self, inputs: Nest) -> Tensor:
        """One tensor from a nest of tensors; a single tensor is a nest of one."""
        if isinstance(inputs, Tensor):
            return self.combine([inputs])
        if type(inputs) in (tuple, list) and all(isinstance(part, Tensor) for part in inputs):
            return self.combine(list(inputs))
        return self.combine(nest.flatten(inputs))


@configurable
class NestConcat(NestCombiner):
    """Concatenates along a dimension counted from the end, the last by default."""

    def __init__(self, nest_mask: Nest = None, dim: int = -1) -> None:
        """Keeps the settings.

        Args:
            nest_mask: bools in the structure of the input, True for the parts to keep; None: all.
            dim: counted from the end, so negative.
        """
        if dim >= 0:
            raise ValueError(f"NestConcat: count dim from the end, got {dim}; use -1 for the last")
        keeps = None if nest_mask is None else nest.flatten(nest_mask)
        if keeps is not None and not (any(keeps) and all(isinstance(keep, bool) for keep in keeps)):
            raise ValueError(f"NestConcat: nest_mask must hold bools, at least one of them True, got {nest_mask!r}")
        super().__init__()
        self.nest_mask = nest_mask
        self._keeps = keeps
        self.dim = dim

    def forward(self, inputs: Nest) -> Tensor:
        """One tensor from the parts of a nest that the mask keeps."""
        if self.nest_mask is not None:
            nest.assert_same_structure(inputs, self.nest_mask)
        return super().forward(inputs)

    def combine(self, tensors: list[Tensor]) -> Tensor:
        """The concatenation of those of `tensors` that the mask keeps."""
        if self._keeps is not None:
            tensors = [tensor for tensor, keep in zip(tensors, self._keeps, strict=True) if keep]
        return tensors[0] if len(tensors) == 1 else torch.cat(tensors, self.dim)


@configurable
class NestSum(NestCombiner):
    """Sums tensors of one shape, or averages them."""

    def __init__(self, average: bool = False, activation: Activation = identity) -> None:
        """Keeps the settings.

        Args:
            average: divide the sum by the number of tensors.
            activation: applied last.
        """
        super().__init__()
        self.average = average
        self.activation = activation

    def combine(self, tensors: list[Tensor]) -> Tensor:
        """The sum or mean of `tensors`."""
        total = tensors[0]
        for tensor in tensors[1:]:
            total = total + tensor
        if self.average:
            total = total / len(tensors)
        elif len(tensors) == 1 and self.activation is not identity:
            total = total.clone()  # an in-place activation must not touch the input
        return self.activation(total)


@configurable
class NestMultiply(NestCombiner):
    """Multiplies tensors of one shape element by element."""

    def __init__(self, activation: Activation = identity) -> None:
        """Keeps the activation.

        Args:
            activation: applied last.
        """
        super().__init__()
        self.activation = activation

    def combine(self, tensors: list[Tensor]) -> Tensor:
        """The product of `tensors`."""
        product = tensors[0]
        for tensor in tensors[1:]:
            product = product * tensor
        if len(tensors) == 1 and self.activation is not identity:
            product = product.clone()  # an in-place activation must not touch the input
        return self.activation(product)


@configurable
class NestOuterProduct(NestCombiner):
    """The outer product of vectors, flattened: all products of one element of each."""

    def __init__(self, activation: Activation = identity, padding: bool = False) -> None:
        """Keeps the settings.

        Args:
            activation: applied last.
            padding: put a 1 behind each vector, so that products of fewer vectors are there too.
        """
        super().__init__()
        self.activation = activation
        self.padding = padding

    def combine(self, tensors: list[Tensor]) -> Tensor:
        """[..., n1 * n2 * ...] from vectors [..., n1], [..., n2], ...; the last index runs fastest."""
        if self.padding:
            tensors = [torch.cat([tensor, torch.ones_like(tensor[..., :1])], dim=-1) for tensor in tensors]
        product = tensors[0]
        for tensor in tensors[1:]:
            product = (product.unsqueeze(-1) * tensor.unsqueeze(-2)).flatten(-2)
        if len(tensors) == 1 and self.activation is not identity:
            product = product.clone()  # an in-place activation must not touch the input
        return self.activation(product)
