"""What a tensor looks like: shape, dtype, and bounds where it has them.

Specs describe every input, state and output of an algorithm, so that buffers, recurrent states, workers and
checkpoints can be made without knowing the algorithm. They are values: equal specs are equal and hash alike.

    >>> from rein.specs import BoundedTensorSpec, TensorSpec
    >>> TensorSpec((3,)).zeros(outer_dims=(2,)).shape
    torch.Size([2, 3])
    >>> BoundedTensorSpec((), torch.int64, minimum=0, maximum=3).num_values
    4
"""

from collections.abc import Sequence
from functools import cache
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from rein import nest
from rein.nest import Nest

__all__ = [
    "BoundedTensorSpec",
    "TensorSpec",
    "check_matches",
    "extract_spec",
    "numpy_dtype",
    "space_from_spec",
    "spec_from_space",
    "torch_dtype",
]


@cache
def numpy_dtype(dtype: torch.dtype) -> np.dtype:
    """The numpy dtype of the same layout as a torch dtype."""
    try:
        return torch.empty(0, dtype=dtype).numpy().dtype
    except TypeError as error:
        raise TypeError(f"{dtype} has no numpy counterpart") from error


@cache
def torch_dtype(dtype: np.dtype) -> torch.dtype:
    """The torch dtype of the same layout as a numpy dtype."""
    return torch.from_numpy(np.empty(0, dtype=dtype)).dtype


class TensorSpec:
    """Shape and dtype of a tensor, without its batch dimensions."""

    __slots__ = ("_dtype", "_shape")

    def __init__(self, shape: Sequence[int], dtype: torch.dtype = torch.float32) -> None:
        """Describes tensors of `shape` and `dtype`.

        Args:
            shape: without batch dimensions; `()` is a scalar.
            dtype: a torch dtype.
        """
        if not isinstance(dtype, torch.dtype):
            raise TypeError(f"dtype is {dtype!r}: give a torch dtype such as torch.float32")
        sizes = tuple(shape)
        if any(int(size) != size or size < 0 for size in sizes):
            raise ValueError(f"shape is {sizes}: give non-negative integers")
        self._shape = torch.Size(int(size) for size in sizes)
        self._dtype = dtype

    @classmethod
    def from_tensor(cls, tensor: Tensor, from_dim: int = 0) -> "TensorSpec":
        """The spec of `tensor` without its first `from_dim` dimensions."""
        return TensorSpec(tensor.shape[from_dim:], tensor.dtype)

    @classmethod
    def from_array(cls, array: NDArray, from_dim: int = 0) -> "TensorSpec":
        """The spec of the tensor that `torch.from_numpy(array)` gives, without `from_dim` dimensions."""
        return TensorSpec(array.shape[from_dim:], torch_dtype(array.dtype))

    @property
    def shape(self) -> torch.Size:
        """Shape without batch dimensions."""
        return self._shape

    @property
    def dtype(self) -> torch.dtype:
        """The torch dtype."""
        return self._dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._shape)

    @property
    def numel(self) -> int:
        """Number of elements."""
        return self._shape.numel()

    @property
    def is_discrete(self) -> bool:
        """Whether the elements are integers or booleans."""
        return not self.is_continuous

    @property
    def is_continuous(self) -> bool:
        """Whether the elements are floating point."""
        return self._dtype.is_floating_point

    @property
    def is_bounded(self) -> bool:
        """Whether the spec has bounds."""
        return False

    def replace(self, shape: Sequence[int] | None = None, dtype: torch.dtype | None = None) -> Self:
        """A copy of this spec with another shape or dtype."""
        return type(self)(self._shape if shape is None else shape, self._dtype if dtype is None else dtype)

    def constant(self, value: float, outer_dims: Sequence[int] = ()) -> Tensor:
        """Tensor [*outer_dims, *shape] filled with `value`."""
        return torch.full((*outer_dims, *self._shape), value, dtype=self._dtype)

    def zeros(self, outer_dims: Sequence[int] = ()) -> Tensor:
        """Zeros [*outer_dims, *shape]."""
        return torch.zeros((*outer_dims, *self._shape), dtype=self._dtype)

    def ones(self, outer_dims: Sequence[int] = ()) -> Tensor:
        """Ones [*outer_dims, *shape]."""
        return torch.ones((*outer_dims, *self._shape), dtype=self._dtype)

    def randn(self, outer_dims: Sequence[int] = ()) -> Tensor:
        """Standard normal numbers [*outer_dims, *shape]; for floating-point specs."""
        self._require_continuous("randn")
        return torch.randn((*outer_dims, *self._shape), dtype=self._dtype)

    def rand(self, outer_dims: Sequence[int] = ()) -> Tensor:
        """Uniform numbers in [0, 1) of shape [*outer_dims, *shape]; for floating-point specs."""
        self._require_continuous("rand")
        return torch.rand((*outer_dims, *self._shape), dtype=self._dtype)

    def sample(self, outer_dims: Sequence[int] = (), generator: torch.Generator | None = None) -> Tensor:
        """Random tensor [*outer_dims, *shape]: normal if floating point, 0 or 1 otherwise."""
        shape = (*outer_dims, *self._shape)
        if self.is_continuous:
            return torch.randn(shape, dtype=self._dtype, generator=generator)
        return torch.randint(0, 2, shape, generator=generator).to(self._dtype)

    def numpy_constant(self, value: float, outer_dims: Sequence[int] = ()) -> NDArray:
        """Array [*outer_dims, *shape] filled with `value`."""
        return np.full((*outer_dims, *self._shape), value, dtype=numpy_dtype(self._dtype))

    def numpy_zeros(self, outer_dims: Sequence[int] = ()) -> NDArray:
        """Array of zeros [*outer_dims, *shape]."""
        return self.numpy_constant(0, outer_dims)

    def numpy_ones(self, outer_dims: Sequence[int] = ()) -> NDArray:
        """Array of ones [*outer_dims, *shape]."""
        return self.numpy_constant(1, outer_dims)

    def numpy_sample(self, outer_dims: Sequence[int] = (), rng: np.random.Generator | None = None) -> NDArray:
        """Random array [*outer_dims, *shape], distributed like `sample`."""
        generator = None
        if rng is not None:
            generator = torch.Generator().manual_seed(int(rng.integers(2**63)))
        sample: NDArray = self.sample(outer_dims, generator).numpy()
        return sample

    def _require_continuous(self, what: str) -> None:
        if not self.is_continuous:
            raise TypeError(f"{what}() needs a floating-point spec, this is {self}: use sample()")

    def _key(self) -> tuple[Any, ...]:
        return (type(self), tuple(self._shape), self._dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorSpec) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (tuple(self._shape), self._dtype))

    def __repr__(self) -> str:
        return f"TensorSpec(shape={tuple(self._shape)}, dtype={self._dtype})"


class BoundedTensorSpec(TensorSpec):
    """A `TensorSpec` with an inclusive lower and upper bound per element."""

    __slots__ = ("_maximum", "_minimum")

    def __init__(
        self,
        shape: Sequence[int],
        dtype: torch.dtype = torch.float32,
        minimum: ArrayLike = 0,
        maximum: ArrayLike = 1,
    ) -> None:
        """Describes tensors of `shape` and `dtype` with ``minimum <= x <= maximum``.

        Args:
            shape: without batch dimensions.
            dtype: a torch dtype.
            minimum: scalar or array broadcast to `shape`; may be -inf.
            maximum: scalar or array broadcast to `shape`, included; may be inf.
        """
        super().__init__(shape, dtype)
        self._minimum = self._bound("minimum", minimum)
        self._maximum = self._bound("maximum", maximum)
        if np.any(self._minimum > self._maximum):
            raise ValueError(f"minimum {minimum!r} is above maximum {maximum!r}")

    def _bound(self, name: str, value: ArrayLike) -> NDArray:
        dtype = numpy_dtype(self._dtype)
        given = np.asarray(value)
        if np.any(np.isnan(given)):
            raise ValueError(f"{name} is {value!r}: it must not be NaN")
        if dtype.kind in "iu" and (np.any(given < np.iinfo(dtype).min) or np.any(given > np.iinfo(dtype).max)):
            raise ValueError(f"{name} is {value!r}: it does not fit into {self._dtype}")
        try:
            bound = np.broadcast_to(given.astype(dtype), self._shape)
        except ValueError as error:
            raise ValueError(
                f"{name} has shape {given.shape}, which cannot be broadcast to {tuple(self._shape)}"
            ) from error
        bound = np.array(bound)
        bound.setflags(write=False)
        return bound

    @property
    def minimum(self) -> NDArray:
        """Lower bounds, an array of the spec's shape."""
        return self._minimum

    @property
    def maximum(self) -> NDArray:
        """Upper bounds, an array of the spec's shape; included."""
        return self._maximum

    @property
    def is_bounded(self) -> bool:
        """Whether the spec has bounds."""
        return True

    @property
    def num_values(self) -> int:
        """Number of values that each element of a discrete spec can take."""
        if self.is_continuous:
            raise TypeError(f"a continuous spec has no number of values: {self}")
        counts = np.unique(self._maximum.astype(np.int64) - self._minimum.astype(np.int64) + 1)
        if len(counts) != 1:
            raise ValueError(f"the elements have different numbers of values {counts}: {self}")
        return int(counts[0])

    def replace(self, shape: Sequence[int] | None = None, dtype: torch.dtype | None = None) -> Self:
        """A copy of this spec with another shape or dtype; a new shape needs uniform bounds."""
        minimum: ArrayLike = self._minimum
        maximum: ArrayLike = self._maximum
        if shape is not None and tuple(shape) != tuple(self._shape):
            if len(np.unique(self._minimum)) > 1 or len(np.unique(self._maximum)) > 1:
                raise ValueError(f"cannot change the shape of {self}: its bounds are not uniform")
            minimum, maximum = self._minimum.flat[0], self._maximum.flat[0]
        return type(self)(
            self._shape if shape is None else shape,
            self._dtype if dtype is None else dtype,
            minimum,
            maximum,
        )

    def sample(self, outer_dims: Sequence[int] = (), generator: torch.Generator | None = None) -> Tensor:
        """Random tensor [*outer_dims, *shape] within the bounds.

        Uniform where both bounds are finite, both included for integers; a standard normal where none is, and an
        exponential tail from the finite one where one is.
        """
        shape = (*outer_dims, *self._shape)
        low = torch.from_numpy(self._minimum.astype(np.float64))
        high = torch.from_numpy(self._maximum.astype(np.float64))
        uniform = torch.rand(shape, dtype=torch.float64, generator=generator)
        if self.is_discrete:
            value = torch.floor(low + uniform * (high - low + 1)).clamp(low, high)
            return value.to(self._dtype)
        below, above = torch.isfinite(low), torch.isfinite(high)
        if bool((below & above).all()):
            value = low + uniform * (high - low)
        else:
            normal = torch.randn(shape, dtype=torch.float64, generator=generator)
            tail = -torch.log1p(-uniform)
            value = torch.where(above, high - tail, normal)
            value = torch.where(below, low + tail, value)
            finite = torch.where(below & above, high - low, 0.0)
            value = torch.where(below & above, low + uniform * finite, value)
        value = value.to(self._dtype)
        return value.clamp(low.to(self._dtype), high.to(self._dtype))

    def _key(self) -> tuple[Any, ...]:
        return (*super()._key(), self._minimum.tobytes(), self._maximum.tobytes())

    def __reduce__(self) -> tuple[Any, ...]:
        arguments = (tuple(self._shape), self._dtype, self._minimum, self._maximum)
        return (type(self), arguments)

    def __repr__(self) -> str:
        low, high = (
            bound.flat[0].item()
            if bound.size and len(np.unique(bound)) == 1
            else np.array2string(bound, separator=",", threshold=8)
            for bound in (self._minimum, self._maximum)
        )
        return f"BoundedTensorSpec(shape={tuple(self._shape)}, dtype={self._dtype}, minimum={low}, maximum={high})"


def extract_spec(tensors: Nest, from_dim: int = 1) -> Nest:
    """The specs of a nest of tensors or arrays, without their first `from_dim` dimensions."""

    def one(leaf: Tensor | NDArray) -> TensorSpec:
        if isinstance(leaf, Tensor):
            return TensorSpec.from_tensor(leaf, from_dim)
        return TensorSpec.from_array(np.asarray(leaf), from_dim)

    return nest.map_structure(one, tensors)


def check_matches(tensors: Nest, specs: Nest, outer_ndim: int, what: str) -> None:
    """Raises `ValueError` naming the path if a tensor has not the shape or dtype of its spec.

    Args:
        tensors: nest of tensors.
        specs: nest of specs of the same structure.
        outer_ndim: number of dimensions in front of the spec's shape.
        what: what the nest is, for the message.
    """

    def matches(leaf: Tensor, spec: TensorSpec) -> bool:
        return (
            leaf.dtype == spec.dtype and leaf.ndim == outer_ndim + spec.ndim and leaf.shape[outer_ndim:] == spec.shape
        )

    leaves = nest.flatten(tensors)
    wanted = nest.flatten(specs)
    if len(leaves) == len(wanted) and all(map(matches, leaves, wanted)):
        return
    try:
        nest.assert_same_structure(specs, tensors)
    except ValueError as error:
        raise ValueError(f"{what} does not match its spec: {error}") from None
    for (path, leaf), spec in zip(nest.flatten_with_paths(tensors), wanted, strict=True):
        if not matches(leaf, spec):
            field = f"{what} at {path!r}" if path else what
            raise ValueError(
                f"{field} has shape {tuple(leaf.shape)} and {leaf.dtype}; expected {outer_ndim} batch "
                f"dimension(s), then shape {tuple(spec.shape)} and {spec.dtype}"
            )


def spec_from_space(space: Any, float_dtype: torch.dtype = torch.float32) -> Nest:
    """The specs of a Gymnasium space.

    Args:
        space: Box, Discrete, MultiDiscrete, MultiBinary, or Dict or Tuple of them.
        float_dtype: dtype of all floating-point boxes.

    Returns:
        A spec, or a dict or tuple of specs.
    """
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        return {key: spec_from_space(part, float_dtype) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(spec_from_space(part, float_dtype) for part in space.spaces)
    if isinstance(space, spaces.Discrete):
        first = int(space.start)
        return BoundedTensorSpec((), torch.int64, first, first + int(space.n) - 1)
    if isinstance(space, spaces.MultiDiscrete):
        return BoundedTensorSpec(space.shape, torch.int64, space.start, space.start + space.nvec - 1)
    if isinstance(space, spaces.MultiBinary):
        return BoundedTensorSpec(space.shape, torch.int8, 0, 1)
    if isinstance(space, spaces.Box):
        dtype = float_dtype if space.dtype.kind == "f" else torch_dtype(space.dtype)
        return BoundedTensorSpec(space.shape, dtype, space.low, space.high)
    raise TypeError(
        f"no spec for the space {space}: use Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple, or "
        "convert the observation with a wrapper"
    )


def space_from_spec(spec: Nest) -> Any:
    """The Gymnasium space of a nest of specs.

    A scalar int64 becomes Discrete, a vector of int64 MultiDiscrete, int8 within [0, 1] MultiBinary, anything else
    Box; a spec without bounds gets those of its dtype.
    """
    from gymnasium import spaces

    if isinstance(spec, dict):
        return spaces.Dict({key: space_from_spec(part) for key, part in spec.items()})
    if nest.is_namedtuple(spec):
        return spaces.Dict({key: space_from_spec(part) for key, part in spec._asdict().items()})
    if isinstance(spec, tuple | list):
        return spaces.Tuple([space_from_spec(part) for part in spec])
    if not isinstance(spec, TensorSpec):
        raise TypeError(f"expected a nest of TensorSpecs, found {spec!r}")
    dtype = numpy_dtype(spec.dtype)
    if not isinstance(spec, BoundedTensorSpec):
        if spec.is_continuous:
            return spaces.Box(-np.inf, np.inf, tuple(spec.shape), dtype.type)
        limits = np.iinfo(dtype) if dtype.kind in "iu" else None
        low, high = (limits.min, limits.max) if limits else (0, 1)
        return spaces.Box(low, high, tuple(spec.shape), dtype.type)
    if spec.dtype == torch.int64 and spec.ndim == 0:
        return spaces.Discrete(spec.num_values, start=int(spec.minimum))
    if spec.dtype == torch.int64 and spec.ndim == 1:
        return spaces.MultiDiscrete(spec.maximum - spec.minimum + 1, start=spec.minimum)
    if spec.dtype == torch.int8 and np.all(spec.minimum == 0) and np.all(spec.maximum == 1):
        return spaces.MultiBinary(spec.shape[0] if spec.ndim == 1 else list(spec.shape))
    return spaces.Box(spec.minimum, spec.maximum, tuple(spec.shape), dtype.type)
