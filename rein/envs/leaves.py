"""The arrays inside a Gymnasium space: which there are, and how to take a sample apart and put it together.

Leaves come in the order of `rein.nest.flatten` (dict keys sorted), with the dtypes of `rein.specs.spec_from_space`, but
without torch, so that worker processes need not load it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

__all__ = ["InvalidReturnError", "Leaf", "LeafWriter", "action_builder", "describe_mismatch", "leaves_of", "reader"]


class Leaf(NamedTuple):
    """One array of a space."""

    path: str
    """Dotted path; "" for the space itself."""
    keys: tuple[Any, ...]
    """Keys and positions that lead to it."""
    shape: tuple[int, ...]
    """Shape of one sample."""
    dtype: np.dtype
    """How it is stored in a batch."""
    space_dtype: np.dtype
    """How the space declares it."""
    low: Any = None
    """Least values, an array of `shape`; None if there are none but those of the dtype."""
    high: Any = None
    """Greatest values."""
    is_choice: bool = False
    """Whether a value outside has no meaning at all: an index, not a quantity."""


def leaves_of(space: spaces.Space[Any]) -> list[Leaf]:
    """The arrays of `space`, dict entries in the order of their sorted keys."""
    leaves: list[Leaf] = []
    _collect(space, (), leaves)
    return leaves


def _collect(space: spaces.Space[Any], keys: tuple[Any, ...], leaves: list[Leaf]) -> None:
    if isinstance(space, spaces.Dict):
        for key in sorted(space.spaces):
            _collect(space.spaces[key], (*keys, key), leaves)
    elif isinstance(space, spaces.Tuple):
        for position, part in enumerate(space.spaces):
            _collect(part, (*keys, position), leaves)
    else:
        path = ".".join(str(key) for key in keys)
        dtype = _stored_dtype(space, path)
        leaves.append(Leaf(path, keys, _shape(space), dtype, np.dtype(space.dtype), *_bounds(space, dtype)))


def _shape(space: spaces.Space[Any]) -> tuple[int, ...]:
    return tuple(int(size) for size in space.shape or ())


def _stored_dtype(space: spaces.Space[Any], path: str) -> np.dtype:
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return np.dtype(np.int64)
    if isinstance(space, spaces.MultiBinary):
        return np.dtype(np.int8)
    if isinstance(space, spaces.Box):
        return np.dtype(np.float32) if space.dtype.kind == "f" else np.dtype(space.dtype)
    where = f" at {path!r}" if path else ""
    raise TypeError(
        f"the space {space}{where} has no fixed shape: use Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple, or "
        "convert it with a wrapper"
    )


def _bounds(space: spaces.Space[Any], dtype: np.dtype) -> tuple[Any, Any, bool]:
    """Least and greatest values of a sample as it is stored, and whether it is a choice."""
    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        return np.asarray(start), np.asarray(start + int(space.n) - 1), True
    if isinstance(space, spaces.MultiDiscrete):
        start_of_each = np.asarray(getattr(space, "start", 0), dtype=np.int64)
        return np.broadcast_to(start_of_each, space.nvec.shape), start_of_each + space.nvec - 1, True
    if isinstance(space, spaces.MultiBinary):
        return np.zeros(space.shape, dtype), np.ones(space.shape, dtype), True
    if not isinstance(space, spaces.Box):
        return None, None, False
    if dtype.kind == "f":
        low, high = space.low.astype(np.float64), space.high.astype(np.float64)
        if np.isinf(low).all() and np.isinf(high).all():
            return None, None, False
        # The dtypes of a world and of its space may round differently.
        slack = [1e-4 * np.maximum(1.0, np.where(np.isinf(one), 0.0, np.abs(one))) for one in (low, high)]
        return (low - slack[0]).astype(dtype), (high + slack[1]).astype(dtype), False
    if dtype.kind == "b":
        return None, None, False
    limits = np.iinfo(dtype)
    if (space.low <= limits.min).all() and (space.high >= limits.max).all():
        return None, None, False
    return space.low, space.high, False


def reader(keys: tuple[Any, ...]) -> Callable[[Any], Any]:
    """A function that takes the leaf at `keys` out of a sample."""
    if not keys:
        return lambda sample: sample
    if len(keys) == 1:
        key = keys[0]
        return lambda sample: sample[key]

    def read(sample: Any) -> Any:
        for key in keys:
            sample = sample[key]
        return sample

    return read


def action_builder(space: spaces.Space[Any]) -> Callable[[Sequence[NDArray], int], Any]:
    """A function ``(arrays, row) -> sample`` that puts row `row` of the leaf arrays together as `space` wants it."""
    positions = iter(range(len(leaves_of(space))))
    return _builder(space, positions)


def _builder(space: spaces.Space[Any], positions: Any) -> Callable[[Sequence[NDArray], int], Any]:
    if isinstance(space, spaces.Dict):
        ordered = {key: _builder(space.spaces[key], positions) for key in sorted(space.spaces)}
        parts = {key: ordered[key] for key in space.spaces}
        return lambda arrays, row: {key: part(arrays, row) for key, part in parts.items()}
    if isinstance(space, spaces.Tuple):
        members = [_builder(part, positions) for part in space.spaces]
        return lambda arrays, row: tuple([member(arrays, row) for member in members])
    position = next(positions)
    if isinstance(space, spaces.Box) and space.shape == ():
        return lambda arrays, row: np.asarray(arrays[position][row])
    return lambda arrays, row: arrays[position][row]


def describe_mismatch(value: Any, leaf: Leaf) -> str | None:
    """Why `value` is not a sample for `leaf`; None if it is one."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError) as error:
        return f"is not an array: {error}"
    if array.shape != leaf.shape:
        return f"has shape {array.shape}; its space says {leaf.shape}"
    if array.dtype != leaf.dtype and not np.can_cast(array.dtype, leaf.dtype, "same_kind"):
        if array.dtype.kind in "biu" and leaf.dtype.kind in "biu":
            return _describe_overflow(array, leaf)
        return f"has dtype {array.dtype}; its space says {leaf.space_dtype}"
    return None


def _describe_overflow(array: NDArray, leaf: Leaf) -> str | None:
    """Why integers cannot be stored without change; None if they can."""
    if leaf.dtype.kind == "b" or not array.size:
        return None
    limits = np.iinfo(leaf.dtype)
    if array.min() < limits.min or array.max() > limits.max:
        return f"is {_shorten(array)}; {leaf.space_dtype} of its space holds {limits.min} to {limits.max}"
    return None


def _shorten(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 120 else text[:117] + "..."


class InvalidReturnError(ValueError):
    """What a world returned does not fit its spaces."""


class LeafWriter:
    """Writes one leaf of the samples of a space into the rows of arrays, after checking it."""

    __slots__ = ("_accepted", "_leaf", "_read", "what")

    def __init__(self, leaf: Leaf, what: str) -> None:
        """Writes `leaf`; `what` names the whole sample in messages."""
        self._leaf = leaf
        self._read = reader(leaf.keys)
        self.what = f"{what} at {leaf.path!r}" if leaf.path else what
        self._accepted: set[np.dtype] = {leaf.dtype}

    def write(self, array: NDArray, row: int, sample: Any) -> None:
        """Writes the leaf of `sample` into ``array[row]``; raises `InvalidReturnError` if it does not fit."""
        try:
            value = self._read(sample)
        except (KeyError, IndexError, TypeError) as error:
            raise InvalidReturnError(f"{self.what} is missing: {error!r}") from error
        leaf = self._leaf
        if leaf.shape == () and value.__class__ in (int, np.int64) and leaf.dtype.kind == "i":
            array[row] = value
            return
        if value.__class__ is not np.ndarray or value.shape != leaf.shape or value.dtype not in self._accepted:
            problem = describe_mismatch(value, leaf)
            if problem is not None:
                raise InvalidReturnError(f"{self.what} {problem}")
            # Wider integers may fit once and not the next time.
            if isinstance(value, np.ndarray) and np.can_cast(value.dtype, leaf.dtype, "same_kind"):
                self._accepted.add(value.dtype)
        array[row] = value
