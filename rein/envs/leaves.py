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
        leaves.append(Leaf(path, keys, _shape(space), _stored_dtype(space, path), np.dtype(space.dtype)))


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
            return None
        return f"has dtype {array.dtype}; its space says {leaf.space_dtype}"
    return None


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
            if isinstance(value, np.ndarray):
                self._accepted.add(value.dtype)
        array[row] = value
