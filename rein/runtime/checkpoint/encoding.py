"""From a component's state to JSON and tensors, checked completely before anything is written.

None, bools, strings, finite floats and ints of 64 bits stand for themselves and a JSON array is a
list. Everything else is an object with one key that names its type:

==================  ==============================================================================
``dict``            ``{key: node}``, all keys are strings
``pairs``           ``[[node, node], ...]``, a dict with other keys
``ordered``         ``[[[node, node], ...], node]``, an OrderedDict and its ``_metadata`` (or None)
``fields``          ``{name: node}``, a NamedTuple or a dataclass; read as a dict
``tuple``           ``[node, ...]``; also ``set``, ``frozenset`` and ``size`` (torch.Size)
``deque``           ``[[node, ...], maximal length or null]``
``int``             hexadecimal digits, for ints of more than 64 bits
``float``           the 16 hexadecimal digits of an infinity or a NaN
``complex``         ``[node, node]``
``bytes``           base64
``dtype``           the name of a torch type
``number``          ``[numpy type, hexadecimal bytes]``, a numpy scalar
``tensor``          ``[name in the tensor file, torch type]``
``array``           ``[name in the tensor file, numpy type]``
==================  ==============================================================================
"""

import base64
import dataclasses
import math
import struct
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rein import nest
from rein.runtime.checkpoint import strict_json
from rein.runtime.checkpoint.dtypes import NUMPY_STORAGE, TORCH_STORAGE, torch_name
from rein.runtime.checkpoint.tensor_file import Array, storage_of

MAX_DEPTH = 100
"""Deepest nesting of containers in a component."""
_MAX_DIMENSIONS = 64
_MAX_NAME = 200
_SMALL_INT = 1 << 63


class EncodedComponent(NamedTuple):
    """A component that is ready to be written.

    Args:
        structure: JSON text.
        tensors: what the structure refers to, by name; tensors that are the same memory appear once.
    """

    structure: bytes
    tensors: dict[str, Tensor | Array]


def encode_component(name: str, state: Any) -> EncodedComponent:
    """The JSON and the tensors of `state`.

    Args:
        name: names the component in error messages.
        state: nest of what the table above lists.

    Raises:
        TypeError: `state` holds something that a checkpoint cannot; the message gives its path.
        ValueError: `state` contains itself or is nested deeper than `MAX_DEPTH`.
    """
    encoder = _Encoder()
    node = encoder.encode(state, (name,))
    return EncodedComponent(strict_json.dump(node), encoder.tensors)


class _Encoder:
    def __init__(self) -> None:
        self.tensors: dict[str, Tensor | Array] = {}
        self._names: dict[Any, str] = {}
        self._enclosing: set[int] = set()
        self._by_type: dict[type, Callable[[Any, tuple[Any, ...]], Any]] = {
            int: self._int,
            float: self._float,
            complex: lambda v, path: {"complex": [self._float(v.real, path), self._float(v.imag, path)]},
            bytes: lambda v, path: {"bytes": base64.b64encode(v).decode()},
            torch.dtype: self._dtype,
            list: self._items,
            dict: self._dict,
            OrderedDict: self._ordered,
            tuple: lambda v, path: {"tuple": self._items(v, path)},
            torch.Size: lambda v, path: {"size": self._items(v, path)},
            set: lambda v, path: {"set": self._items(v, path)},
            frozenset: lambda v, path: {"frozenset": self._items(v, path)},
            deque: lambda v, path: {"deque": [self._items(v, path), v.maxlen]},
            Tensor: self._tensor,
            torch.nn.Parameter: self._tensor,
            np.ndarray: self._array,
            np.memmap: self._array,
        }

    def encode(self, value: Any, path: tuple[Any, ...]) -> Any:
        """The JSON node of `value`, found at `path`."""
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        method = self._by_type.get(kind) or self._method_for_subclass(value)
        if method is None:
            raise _unsupported(value, path)
        if id(value) in self._enclosing:
            raise ValueError(f"{_dotted(path)} contains itself; a checkpoint needs a finite nest")
        if len(path) > MAX_DEPTH:
            raise ValueError(f"{_dotted(path)[:300]} is nested deeper than {MAX_DEPTH} levels; flatten the state")
        self._enclosing.add(id(value))
        try:
            return method(value, path)
        finally:
            self._enclosing.discard(id(value))

    def _method_for_subclass(self, value: Any) -> Callable[[Any, tuple[Any, ...]], Any] | None:
        if isinstance(value, np.generic):
            return self._number
        if nest.is_namedtuple(value):
            return lambda v, path: self._fields(v._asdict(), path)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in dataclasses.fields(value)]
            return lambda v, path: self._fields({n: getattr(v, n) for n in names}, path)
        return None

    def _int(self, value: int, path: tuple[Any, ...]) -> Any:
        return value if -_SMALL_INT <= value < _SMALL_INT else {"int": f"{value:x}"}

    def _float(self, value: float, path: tuple[Any, ...]) -> Any:
        return value if math.isfinite(value) else {"float": struct.pack(">d", value).hex()}

    def _dtype(self, value: torch.dtype, path: tuple[Any, ...]) -> Any:
        if torch_name(value) not in TORCH_STORAGE:
            raise _unsupported(value, path)
        return {"dtype": torch_name(value)}

    def _items(self, value: Iterable[Any], path: tuple[Any, ...]) -> list[Any]:
        return [self.encode(item, (*path, index)) for index, item in enumerate(value)]

    def _pairs(self, value: Mapping[Any, Any], path: tuple[Any, ...]) -> list[Any]:
        return [
            [self._key(key, (*path, f"key {key!r:.50}")), self.encode(item, (*path, key))]
            for key, item in value.items()
        ]

    def _key(self, key: Any, path: tuple[Any, ...]) -> Any:
        if isinstance(key, Tensor):
            raise TypeError(f"{_dotted(path)} is a tensor; use its position or name as the key")
        return self.encode(key, path)

    def _dict(self, value: dict[Any, Any], path: tuple[Any, ...]) -> Any:
        if all(type(key) is str for key in value):
            return {"dict": {key: self.encode(item, (*path, key)) for key, item in value.items()}}
        return {"pairs": self._pairs(value, path)}

    def _ordered(self, value: "OrderedDict[Any, Any]", path: tuple[Any, ...]) -> Any:
        metadata = self.encode(getattr(value, "_metadata", None), (*path, "_metadata"))
        return {"ordered": [self._pairs(value, path), metadata]}

    def _fields(self, value: dict[str, Any], path: tuple[Any, ...]) -> Any:
        return {"fields": {name: self.encode(item, (*path, name)) for name, item in value.items()}}

    def _number(self, value: np.generic, path: tuple[Any, ...]) -> Any:
        kind = value.dtype.str
        if kind not in NUMPY_STORAGE:
            raise _unsupported(value, path)
        return {"number": [kind, value.tobytes().hex()]}

    def _tensor(self, value: Tensor, path: tuple[Any, ...]) -> Any:
        if (
            value.layout is not torch.strided
            or value.device.type == "meta"
            or value.is_quantized
            or value.ndim > _MAX_DIMENSIONS
            or storage_of(value) is None
        ):
            raise _unsupported(value, path)
        bits = (value.is_conj(), value.is_neg())
        memory = (value.device, value.data_ptr(), value.stride(), bits)
        return {"tensor": [self._store(value.detach(), memory, path), torch_name(value.dtype)]}

    def _array(self, value: Array, path: tuple[Any, ...]) -> Any:
        if storage_of(value) is None:
            raise _unsupported(value, path)
        memory = ("numpy", value.__array_interface__["data"][0], value.strides)
        return {"array": [self._store(value, memory, path), value.dtype.str]}

    def _store(self, value: Tensor | Array, memory: Any, path: tuple[Any, ...]) -> str:
        key = (*memory, tuple(value.shape), value.dtype)
        is_empty = 0 in value.shape
        if not is_empty and key in self._names:
            return self._names[key]
        name = self._free_name(path)
        self.tensors[name] = value
        if not is_empty:
            self._names[key] = name
        return name

    def _free_name(self, path: tuple[Any, ...]) -> str:
        # Readable to people and other tools; the structure is what gives it meaning.
        text = _dotted(path[1:]).encode("utf-8", "backslashreplace").decode()
        name = base = text[-_MAX_NAME:] or "value"
        count = len(self.tensors)
        while name in self.tensors or name == "__metadata__":
            name = f"{base}#{count}"
            count += 1
        return name


def _dotted(path: tuple[Any, ...]) -> str:
    return ".".join(str(part) for part in path)


def _unsupported(value: Any, path: tuple[Any, ...]) -> TypeError:
    kind = type(value)
    found = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, Tensor):
        found += f" ({value.layout}, {value.dtype}, on {value.device}, {value.ndim} dimensions)"
        fix = "save a dense tensor of a plain type, for example `.to_dense()` or `.dequantize()`"
    elif isinstance(value, np.ndarray | np.generic):
        found += f" of {value.dtype!r}"
        fix = "save a plain array of bools, ints, floats or complex numbers, or a list"
    elif isinstance(value, int | float | str | bytes | dict | list | tuple):
        base = next(b for b in (int, float, str, bytes, dict, list, tuple) if isinstance(value, b))
        fix = f"convert it with `{base.__name__}(...)`: its class could not be restored"
    elif callable(value):
        fix = "leave code out of the state; rebuild it from the configuration"
    else:
        fix = "save what its `state_dict()` returns, or plain numbers, strings, tensors and dicts"
    return TypeError(f"{_dotted(path)} is a {found}, which a checkpoint cannot hold; {fix}")
