"""From the JSON and the tensors of a component back to its state; `encoding` lists the nodes."""

import base64
import math
import struct
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from rein.runtime.checkpoint.dtypes import TORCH_STORAGE, numpy_dtype, torch_dtype
from rein.runtime.checkpoint.encoding import MAX_DEPTH
from rein.runtime.checkpoint.errors import DamagedCheckpointError
from rein.runtime.checkpoint.tensor_file import TensorFile


def decode_component(node: Any, tensors: TensorFile | None, what: str) -> Any:
    """The state that `encode_component` turned into `node`.

    Args:
        node: parsed JSON, not trusted.
        tensors: what the node refers to; None if it refers to nothing.
        what: names the structure in error messages.

    Raises:
        DamagedCheckpointError: `node` is nothing that `encode_component` writes.
    """
    try:
        return _Decoder(tensors).decode(node, 0)
    except DamagedCheckpointError:
        raise
    except (ValueError, TypeError, OverflowError, struct.error) as error:
        raise DamagedCheckpointError(f"{what} is not a saved structure: {error}") from error


class _Decoder:
    def __init__(self, tensors: TensorFile | None) -> None:
        self._tensors = tensors
        self._containers: dict[str, Callable[[Any, int], Any]] = {
            "dict": self._fields,
            "fields": self._fields,
            "pairs": lambda v, depth: dict(self._pairs(v, depth)),
            "ordered": self._ordered,
            "tuple": lambda v, depth: tuple(self._items(v, depth)),
            "size": lambda v, depth: torch.Size(self._items(v, depth)),
            "set": lambda v, depth: set(self._items(v, depth)),
            "frozenset": lambda v, depth: frozenset(self._items(v, depth)),
            "deque": self._deque,
            "complex": self._complex,
        }
        self._leaves: dict[str, Callable[[Any], Any]] = {
            "int": lambda v: int(_text(v), 16),
            "float": _float,
            "bytes": lambda v: base64.b64decode(_text(v), validate=True),
            "dtype": _dtype,
            "number": _number,
            "tensor": lambda v: self._file().tensor(*_two_texts(v)),
            "array": lambda v: self._file().array(*_two_texts(v)),
        }

    def decode(self, node: Any, depth: int) -> Any:
        """The value of `node`, which lies `depth` containers deep."""
        if node is None or isinstance(node, bool | str | float):
            return node
        if isinstance(node, int):
            if not -(1 << 63) <= node < 1 << 63:
                raise ValueError("an int of more than 64 bits is not written as {'int': ...}")
            return node
        if depth > MAX_DEPTH:
            raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")
        if isinstance(node, list):
            return self._items(node, depth)
        if not isinstance(node, dict) or len(node) != 1:
            raise ValueError(f"a node must have one key that names its type, not {node!r:.100}")
        ((kind, value),) = node.items()
        if kind in self._containers:
            return self._containers[kind](value, depth)
        if kind in self._leaves:
            return self._leaves[kind](value)
        raise ValueError(f"{kind!r:.100} is not a type of node")

    def _items(self, value: Any, depth: int) -> list[Any]:
        if not isinstance(value, list):
            raise TypeError(f"a list is expected, not {value!r:.100}")
        return [self.decode(item, depth + 1) for item in value]

    def _fields(self, value: Any, depth: int) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise TypeError(f"an object is expected, not {value!r:.100}")
        return {key: self.decode(item, depth + 1) for key, item in value.items()}

    def _pairs(self, value: Any, depth: int) -> list[tuple[Any, Any]]:
        pairs = []
        for pair in _list(value):
            key, item = _list(pair, 2)
            pairs.append((self.decode(key, depth + 1), self.decode(item, depth + 1)))
        if len(dict(pairs)) != len(pairs):
            raise ValueError("a key occurs twice in one dict")
        return pairs

    def _ordered(self, value: Any, depth: int) -> "OrderedDict[Any, Any]":
        pairs, metadata = _list(value, 2)
        ordered = OrderedDict(self._pairs(pairs, depth))
        decoded = self.decode(metadata, depth + 1)
        if decoded is not None:
            # The attribute by which nn.Module.state_dict() carries the versions of its modules.
            ordered._metadata = decoded  # type: ignore[attr-defined]
        return ordered

    def _deque(self, value: Any, depth: int) -> "deque[Any]":
        items, length = _list(value, 2)
        if length is not None and (type(length) is not int or length < len(_list(items))):
            raise ValueError(f"a deque cannot have the maximal length {length!r:.100}")
        return deque(self._items(items, depth), maxlen=length)

    def _complex(self, value: Any, depth: int) -> complex:
        real, imaginary = (self.decode(part, depth + 1) for part in _list(value, 2))
        if not isinstance(real, float) or not isinstance(imaginary, float):
            raise TypeError("a complex number has two floats")
        return complex(real, imaginary)

    def _file(self) -> TensorFile:
        if self._tensors is None:
            raise ValueError("it refers to a tensor but has no tensor file")
        return self._tensors


def _list(value: Any, length: int | None = None) -> list[Any]:
    if not isinstance(value, list) or length not in (None, len(value)):
        raise TypeError(f"a list of {length or 'any'} items is expected, not {value!r:.100}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a string is expected, not {value!r:.100}")
    return value


def _two_texts(value: Any) -> tuple[str, str]:
    first, second = _list(value, 2)
    return _text(first), _text(second)


def _float(value: Any) -> float:
    (number,) = struct.unpack(">d", bytes.fromhex(_text(value)))
    assert isinstance(number, float)
    if math.isfinite(number):
        raise ValueError("a finite float is not written as {'float': ...}")
    return number


def _dtype(value: Any) -> torch.dtype:
    if _text(value) not in TORCH_STORAGE:
        raise ValueError(f"{value!r:.100} is not a torch type that checkpoints hold")
    return torch_dtype(value)


def _number(value: Any) -> np.generic:
    kind, digits = _two_texts(value)
    (number,) = np.frombuffer(bytes.fromhex(digits), dtype=numpy_dtype(kind))
    assert isinstance(number, np.generic)
    return number
