"""Layers without parameters: they change shape, type or scale. All keep leading dimensions as they are."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from rein import nest
from rein.config import configurable
from rein.nest import Nest
from rein.networks.layers.initializers import identity
from rein.networks.layers.layer import Layer

_ELEMENTWISE = frozenset(
    {
        identity,
        torch.relu,
        torch.relu_,
        torch.tanh,
        torch.tanh_,
        torch.sigmoid,
        torch.sigmoid_,
        torch.exp,
        torch.exp_,
        torch.abs,
        torch.square,
        F.relu,
        F.elu,
        F.selu,
        F.gelu,
        F.silu,
        F.mish,
        F.softplus,
        F.leaky_relu,
        F.tanh,
        F.sigmoid,
    }
)


@configurable
class Identity(Layer):
    """Returns its input."""

    def forward(self, x: Tensor) -> Tensor:
        """Returns `x`."""
        return x


@configurable
class Detach(Layer):
    """Returns its input, which may be a nest, without gradient."""

    def forward(self, x: Nest) -> Nest:
        """Returns `x`, detached."""
        return x.detach() if isinstance(x, Tensor) else nest.detach(x)


@configurable
class Cast(Layer):
    """Converts to another type, float32 by default."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        """Keeps the type.

        Args:
            dtype: of the output.
        """
        super().__init__()
        self.dtype = dtype

    def forward(self, x: Tensor) -> Tensor:
        """Returns `x` as the chosen type."""
        return x.to(self.dtype)


@configurable
class Lambda(Layer):
    """Applies a function."""

    def __init__(self, function: Callable[..., Any], leading_dims_agnostic: bool = False) -> None:
        """Keeps the function.

        Args:
            function: of a batched nest.
            leading_dims_agnostic: whether it works element by element or counts dimensions from the end, so
                that any number of dimensions may stand before those of one example.
        """
        super().__init__()
        self.function = function
        self._leading_dims_agnostic = leading_dims_agnostic or function in _ELEMENTWISE

    @property
    def is_leading_dims_agnostic(self) -> bool:
        """Whether any number of dimensions may stand before those of one example."""
        return self._leading_dims_agnostic

    def forward(self, x: Nest) -> Any:
        """Returns ``function(x)``."""
        return self.function(x)


@configurable
class Scale(Layer):
    """Multiplies by a constant."""

    def __init__(self, scale: float) -> None:
        """Keeps the factor.

        Args:
            scale: the factor.
        """
        super().__init__()
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        """Returns ``scale * x``."""
        return x * self.scale


@configurable
class ScaleGradient(Layer):
    """Returns its input; its gradient is multiplied by a constant."""

    def __init__(self, scale: float) -> None:
        """Keeps the factor.

        Args:
            scale: the factor of the gradient; 0 stops it.
        """
        super().__init__()
        self.scale = scale

    def forward(self, x: Tensor) -> Tensor:
        """Returns `x`."""
        return x * self.scale + x.detach() * (1 - self.scale) if self.scale else x.detach()


@configurable
class Reshape(Layer):
    """Gives the last dimensions a new shape."""

    def __init__(self, shape: int | Sequence[int], input_dims: int | None = None) -> None:
        """Keeps the shape.

        Args:
            shape: of one example in the output; a number is the length of a vector.
            input_dims: number of dimensions of one example in the input; None: all after the first (batch)
                dimension, which then must be the only leading one.
        """
        super().__init__()
        self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.input_dims = input_dims

    @property
    def is_leading_dims_agnostic(self) -> bool:
        """Whether any number of dimensions may stand before those of one example."""
        return self.input_dims is not None or -1 not in self.shape

    def forward(self, x: Tensor) -> Tensor:
        """Maps [..., *input] to [..., *shape]."""
        if self.input_dims is not None:
            return x.reshape(*x.shape[: x.ndim - self.input_dims], *self.shape)
        if -1 in self.shape:
            return x.reshape(x.shape[0], *self.shape)
        # Consume trailing dimensions until they hold one example: leading dimensions stay.
        size, count, taken = math.prod(self.shape), 1, 0
        while count < size and taken < x.ndim - 1:
            taken += 1
            count *= x.shape[-taken]
        if count != size:
            raise ValueError(f"Reshape: the last dimensions of {tuple(x.shape)} do not make {self.shape}")
        return x.reshape(*x.shape[: x.ndim - taken], *self.shape)


@configurable
class Flatten(Layer):
    """Flattens the last dimensions into one."""

    def __init__(self, input_dims: int) -> None:
        """Keeps the number of dimensions.

        Args:
            input_dims: number of dimensions of one example.
        """
        super().__init__()
        self.input_dims = input_dims

    def forward(self, x: Tensor) -> Tensor:
        """Maps [..., *input] to [..., features]."""
        if self.input_dims == 1:
            return x
        return x.unsqueeze(-1) if self.input_dims == 0 else x.flatten(-self.input_dims)


@configurable
class Permute(Layer):
    """Reorders the dimensions of each example."""

    def __init__(self, *dims: int) -> None:
        """Keeps the order.

        Args:
            *dims: the new order of the example's dimensions, counted from 0 without leading dimensions.
        """
        if sorted(dims) != list(range(len(dims))):
            raise ValueError(f"Permute: {dims} is not a permutation of 0..{len(dims) - 1}")
        super().__init__()
        self.dims = dims

    def forward(self, x: Tensor) -> Tensor:
        """Maps [..., *shape] to [..., *permuted shape]."""
        lead = x.ndim - len(self.dims)
        return x.permute(*range(lead), *(lead + dim for dim in self.dims))


@configurable
class Transpose(Layer):
    """Exchanges two dimensions of each example."""

    def __init__(self, dim0: int = -1, dim1: int = -2) -> None:
        """Keeps the dimensions.

        Args:
            dim0: counted from the end, so negative.
            dim1: counted from the end, so negative.
        """
        if dim0 >= 0 or dim1 >= 0:
            raise ValueError(f"Transpose: count dimensions from the end, got {dim0} and {dim1}; use negative numbers")
        super().__init__()
        self.dim0 = dim0
        self.dim1 = dim1

    def forward(self, x: Tensor) -> Tensor:
        """Returns `x` with the two dimensions exchanged."""
        return x.transpose(self.dim0, self.dim1)


class _Reduction(Layer):
    """Reduces one dimension, counted from the end."""

    def __init__(self, dim: int = -1) -> None:
        if dim >= 0:
            raise ValueError(f"{type(self).__name__}: count dim from the end, got {dim}")
        super().__init__()
        self.dim = dim


@configurable
class Sum(_Reduction):
    """Sums over a dimension counted from the end."""

    def forward(self, x: Tensor) -> Tensor:
        """Returns the sum."""
        return x.sum(self.dim)


@configurable
class Mean(_Reduction):
    """Averages over a dimension counted from the end."""

    def forward(self, x: Tensor) -> Tensor:
        """Returns the mean."""
        return x.mean(self.dim)
