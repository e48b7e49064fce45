"""Tensors in one safetensors file: written as a stream, read without a second copy.

The file format is that of the safetensors library (eight bytes of header length, a JSON header, the
bytes), and its readers open these files. It is written here because the library first copies all
tensors into memory, and because each byte must be hashed on its way to the disk; it is read here so
that the bytes that were verified are the bytes that are used.
"""

import math
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rein.runtime.checkpoint import strict_json
from rein.runtime.checkpoint.dtypes import (
    CODE_BYTES,
    NUMPY_STORAGE,
    TORCH_STORAGE,
    Storage,
    numpy_dtype,
    torch_dtype,
    torch_name,
)
from rein.runtime.checkpoint.errors import CheckpointError, DamagedCheckpointError

Array = np.ndarray
Buffer = bytes | memoryview
Source = bytearray | memoryview

MAX_HEADER_BYTES = 100_000_000
"""Longest header, the same bound as in the safetensors library."""
PIECE_BYTES = 16 << 20
"""Tensors are copied (when they must be), hashed and written in pieces of at most this size."""
_ALIGNMENT = 64
KEEP_MAPPED_BYTES = 64 << 20
"""A larger tensor of a memory-mapped file stays mapped; smaller ones are copied out of it."""


class Entry(NamedTuple):
    """Where a tensor lies in a file."""

    code: str
    shape: tuple[int, ...]
    begin: int
    end: int


class Header(NamedTuple):
    """What a file says about itself."""

    data_start: int
    """Where the tensors begin, in bytes."""
    entries: dict[str, Entry]
    metadata: dict[str, str]
    """Texts of whoever wrote the file."""


def storage_of(value: Tensor | Array) -> Storage | None:
    """How the elements of `value` are written; None if a checkpoint cannot hold them."""
    if isinstance(value, Tensor):
        return TORCH_STORAGE.get(torch_name(value.dtype))
    return NUMPY_STORAGE.get(value.dtype.str)


def encode_file(tensors: Mapping[str, Tensor | Array]) -> Iterator[Buffer]:
    """The bytes of a safetensors file that holds `tensors`, piece by piece.

    Args:
        tensors: by name; any shape and strides, on any device, all of a type with a storage.
    """
    if sys.byteorder != "little":
        raise CheckpointError("checkpoints can be written on little-endian machines only")
    # Widest elements first, so that each tensor starts at a multiple of its element size.
    ordered = sorted(tensors.items(), key=lambda item: -_element_bytes(item[1]))
    yield _header(ordered)
    for _, value in ordered:
        yield from _pieces(value)


def _element_bytes(value: Tensor | Array) -> int:
    return value.element_size() if isinstance(value, Tensor) else value.itemsize


def _header(ordered: list[tuple[str, Tensor | Array]]) -> bytes:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    position = 0
    for name, value in ordered:
        storage = storage_of(value)
        assert storage is not None
        shape = list(value.shape) + ([2] if storage.is_complex else [])
        end = position + math.prod(shape) * CODE_BYTES[storage.code]
        header[name] = {"dtype": storage.code, "shape": shape, "data_offsets": [position, end]}
        position = end
    text = strict_json.dump(header)
    text += b" " * (-(8 + len(text)) % _ALIGNMENT)
    if len(text) > MAX_HEADER_BYTES:
        raise ValueError(
            f"{len(ordered)} tensors need a header of {len(text)} bytes, more than the "
            f"{MAX_HEADER_BYTES} that safetensors allows; stack them into fewer tensors or save "
            "them as several components"
        )
    return len(text).to_bytes(8, "little") + text


def _pieces(value: Tensor | Array) -> Iterator[memoryview]:
    """The elements of `value` in row-major order, as little-endian bytes."""
    row_count = value.shape[0] if value.ndim else 1
    total = math.prod(value.shape) * _element_bytes(value)
    if total == 0:
        return
    if total <= PIECE_BYTES or value.ndim == 0:
        yield _bytes_of(value)
    elif total // row_count > PIECE_BYTES:
        for row in range(row_count):
            yield from _pieces(value[row])
    else:
        rows = PIECE_BYTES // (total // row_count)
        for start in range(0, row_count, rows):
            yield _bytes_of(value[start : start + rows])


def _bytes_of(value: Tensor | Array) -> memoryview:
    if isinstance(value, Tensor):
        plain = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
        array = plain.reshape(-1).view(torch.uint8).numpy()
    else:
        little = value.astype(value.dtype.newbyteorder("<"), copy=False)
        array = np.ascontiguousarray(little).reshape(-1).view(np.uint8)
    return array.data


class TensorFile:
    """The tensors of one safetensors file whose bytes are in memory or memory-mapped.

    The same name read twice gives the same object, as it was when it was saved.

    Args:
        source: all bytes of the file; writable, and kept alive by the tensors that stay in it.
        what: names the file in error messages.
    """

    def __init__(self, source: Source, what: str) -> None:
        self._source = source
        self._what = what
        self._data_start, self._entries, _ = parse_header(source, what)
        self._read: dict[tuple[str, str], Tensor | Array] = {}

    def tensor(self, name: str, dtype: str) -> Tensor:
        """The torch tensor `name`, of a type named as in `TORCH_STORAGE`, on the CPU."""
        key = ("torch." + dtype, name)
        if key not in self._read:
            self._read[key] = self._make_tensor(name, dtype)
        found = self._read[key]
        assert isinstance(found, Tensor)
        return found

    def array(self, name: str, dtype: str) -> Array:
        """The numpy array `name`, of a type named as in `NUMPY_STORAGE`."""
        key = (dtype, name)
        if key not in self._read:
            self._read[key] = self._make_array(name, dtype)
        found = self._read[key]
        assert isinstance(found, np.ndarray)
        return found

    def _make_tensor(self, name: str, dtype: str) -> Tensor:
        entry, shape = self._find(name, TORCH_STORAGE.get(dtype), dtype)
        kind = torch_dtype(dtype)
        with _refusing_impossible(self._what, name):
            if entry.begin == entry.end:
                return torch.empty(shape, dtype=kind)
            raw = torch.frombuffer(
                self._source,
                dtype=torch.uint8,
                count=entry.end - entry.begin,
                offset=self._data_start + entry.begin,
            )
            # Torch reads complex numbers with instructions that fault on unaligned memory.
            if not self._stays_mapped(entry) or raw.data_ptr() % kind.itemsize:
                raw = raw.clone()
            if kind is torch.bool and raw.max() > 1:
                raise ValueError("its bools are neither 0 nor 1")
            return raw.view(kind).reshape(shape)

    def _make_array(self, name: str, dtype: str) -> Array:
        entry, shape = self._find(name, NUMPY_STORAGE.get(dtype), dtype)
        kind = numpy_dtype(dtype)
        with _refusing_impossible(self._what, name):
            if entry.begin == entry.end:
                return np.empty(shape, dtype=kind)
            flat = np.frombuffer(
                self._source,
                dtype=kind.newbyteorder("<"),
                count=math.prod(shape),
                offset=self._data_start + entry.begin,
            )
            if kind.kind == "b" and flat.view(np.uint8).max() > 1:
                # Numpy counts true elements by adding bytes, and then writes that many.
                raise ValueError("its bools are neither 0 nor 1")
            view: Array = flat.reshape(shape)
            if kind.byteorder == ">":
                return view.astype(kind)
            return view if self._stays_mapped(entry) else view.copy()

    def _stays_mapped(self, entry: Entry) -> bool:
        is_mapped = not isinstance(self._source, bytearray)
        return is_mapped and entry.end - entry.begin > KEEP_MAPPED_BYTES

    def _find(self, name: str, storage: Storage | None, dtype: str) -> tuple[Entry, tuple[int, ...]]:
        entry = self._entries.get(name)
        if entry is None:
            raise DamagedCheckpointError(f"{self._what} has no tensor {name!r}")
        if storage is None or entry.code != storage.code:
            raise DamagedCheckpointError(f"{self._what} holds {name!r} as {entry.code}, which cannot be {dtype!r}")
        if not storage.is_complex:
            return entry, entry.shape
        if entry.shape[-1:] != (2,):
            raise DamagedCheckpointError(f"{self._what}: {name!r} is not made of complex pairs")
        return entry, entry.shape[:-1]


class _refusing_impossible:  # noqa: N801 - reads as a statement
    """Turns a shape that torch or numpy cannot build into a `DamagedCheckpointError`."""

    def __init__(self, what: str, name: str) -> None:
        self._where = f"{what}: tensor {name!r}"

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, ValueError | RuntimeError | OverflowError | TypeError):
            raise DamagedCheckpointError(f"{self._where} cannot exist: {error}") from error


def parse_header(source: Source, what: str) -> Header:
    """The header of a safetensors file, checked against the size of the file.

    Args:
        source: all bytes of the file.
        what: names the file in error messages.

    Raises:
        DamagedCheckpointError: not a safetensors file, or cut short.
    """
    length = int.from_bytes(source[:8], "little")
    if len(source) < 8 or length > min(MAX_HEADER_BYTES, len(source) - 8):
        raise DamagedCheckpointError(
            f"{what} is not a safetensors file: it announces a header of {length} bytes in a file "
            f"of {len(source)} bytes"
        )
    header = strict_json.load(source[8 : 8 + length], f"the header of {what}")
    if not isinstance(header, dict):
        raise DamagedCheckpointError(f"the header of {what} is not an object")
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(text, str) for text in metadata.values()):
        raise DamagedCheckpointError(f"the metadata of {what} are not texts")
    entries = {name: _parse_entry(name, value, what) for name, value in header.items()}
    position = 0
    for name, entry in sorted(entries.items(), key=lambda item: item[1][2:]):
        if entry.begin != position:
            raise DamagedCheckpointError(
                f"{what}: {name!r} starts at byte {entry.begin}, not at {position} where the tensor before it ends"
            )
        position = entry.end
    if position != len(source) - 8 - length:
        raise DamagedCheckpointError(
            f"{what} holds {len(source) - 8 - length} bytes of tensors, its header says {position}"
        )
    return Header(8 + length, entries, metadata)


def _parse_entry(name: str, value: Any, what: str) -> Entry:
    try:
        code, shape, (begin, end) = value["dtype"], value["shape"], value["data_offsets"]
        numbers = [*shape, begin, end]
        size = CODE_BYTES[code]
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedCheckpointError(f"{what}: {name!r} is described wrongly: {error!r}") from error
    if len(value) != 3 or any(type(n) is not int or n < 0 for n in numbers) or len(shape) > 64:
        raise DamagedCheckpointError(f"{what}: {name!r} is described wrongly: {value!r:.200}")
    if end - begin != math.prod(shape) * size or begin % size:
        raise DamagedCheckpointError(
            f"{what}: {name!r} of shape {shape} and type {code} cannot lie in bytes {begin} to {end}"
        )
    return Entry(code, tuple(shape), begin, end)
