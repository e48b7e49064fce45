"""Storage of steps as packed rows, with every field visible as a tensor of its own.

All small fields of one step of one environment lie together in one row of bytes, so that reading a random step costs
one or two cache misses instead of one per field. Fields of more than a kilobyte, such as images, have rows of their own.
A field is seen through a strided view of shape ``[num_envs, max_length, ...]`` on its rows.
"""

import ast
import os
import re
import tempfile
import weakref
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from rein.replay.kernels import compiled
from rein.specs import TensorSpec, numpy_dtype

__all__ = ["Field", "RowStorage", "stored_fields"]

LARGE_FIELD_BYTES = 1024
"""Fields larger than this have rows of their own: packing saves nothing where a copy is many cache lines long."""

_CACHE_LINE = 64

_LAYOUT = re.compile(r"\d+ environments x \d+ steps of (.*)", re.DOTALL)
_FIELD = re.compile(r"(.*): (\([\d, ]*\)) torch\.(\w+)")
"""What `RingBuffer` writes about its fields into its state."""


_Selection = tuple[int, tuple[int, int, int], list[tuple[tuple[int, ...], np.dtype | None, torch.dtype]]]
"""Address of a field table; address, stride and size of what to fetch ahead; shape and dtypes of each field."""


class Field(NamedTuple):
    """Where a field lies in the rows."""

    path: str
    shape: torch.Size
    dtype: torch.dtype
    group: int
    """Index of the array of rows."""
    offset: int
    """Bytes from the start of the row."""
    size: int
    """Bytes of the field."""


class RowStorage:
    """Rows for `max_length` steps of each of `num_envs` environments."""

    def __init__(
        self,
        specs: Sequence[tuple[str, TensorSpec]],
        num_envs: int,
        max_length: int,
        device: torch.device,
        is_shared: bool = False,
        directory: str | os.PathLike[str] | None = None,
    ) -> None:
        """Zeroed rows; their memory is taken from the system as they are written.

        Args:
            specs: path and spec of each field.
            num_envs: number of environments.
            max_length: steps per environment.
            device: where the rows live.
            is_shared: whether other processes see the rows.
            directory: where to keep the rows in files instead of memory; made if missing.
        """
        self.num_envs = num_envs
        self.max_length = max_length
        self.device = device
        self.is_shared = is_shared
        self.directory = None if directory is None else Path(directory)
        self.fields, self.row_sizes = _lay_out(specs)
        self.rows = self._allocate()
        self._bind()

    @property
    def num_bytes(self) -> int:
        """Bytes that the rows take when all are written."""
        return sum(rows.numel() for rows in self.rows)

    @property
    def is_compiled(self) -> bool:
        """Whether rows are copied by compiled loops; they take the steps of `write` one after the other."""
        return self._loops is not None

    def view(self, index: int) -> Tensor:
        """[num_envs, max_length, ...] view of field `index`; writing to it changes what is stored."""
        return self._views[index]

    def attach(self, current_pos: Tensor, current_size: Tensor) -> None:
        """Takes the tensors int64 [num_envs] that say where each environment is written next and how much is stored."""
        self._pos, self._size = current_pos, current_size
        ring = [self._table.ctypes.data, current_pos.data_ptr(), current_size.data_ptr()]
        self._ring = np.array([*ring, self.max_length, self.num_envs], dtype=np.int64)
        self._ring_at = self._ring.ctypes.data

    def write(self, batch: Sequence[Tensor], env_ids: Tensor, num: int) -> None:
        """Stores one step per environment at its current position, and advances position and size.

        Args:
            batch: one contiguous tensor [B, ...] per field; fewer than fields leave the last fields as they are.
            env_ids: [B], distinct unless `is_compiled`.
            num: B.
        """
        if self._loops is not None:
            sources = array("q", [tensor.data_ptr() for tensor in batch])
            self._loops.write_rows(self._ring_at, sources.buffer_info()[0], len(batch), env_ids.data_ptr(), num)
            return
        slots = self._pos[env_ids] % self.max_length
        for view, tensor in zip(self._views, batch, strict=False):
            view[env_ids, slots] = tensor.detach()
        self._pos[env_ids] += 1
        self._size[env_ids] = (self._size[env_ids] + 1).clamp(max=self.max_length)

    def read(
        self, indices: Sequence[int], env_ids: Tensor, positions: Tensor, length: int | None = None
    ) -> list[Tensor]:
        """Copies of steps, one contiguous tensor per field.

        Args:
            indices: which fields.
            env_ids: int64 [B], contiguous.
            positions: int64 [B], contiguous; must be stored.
            length: number of steps from each position on, or None for one step without a time dimension.

        Returns:
            One tensor [B, length, ...], or [B, ...] if `length` is None, per field.
        """
        num = env_ids.shape[0]
        outer = (num,) if length is None else (num, length)
        if self._loops is None:
            return self._read_with_torch(indices, env_ids, positions, outer)
        table_at, ahead, layouts = self._selection(tuple(indices))
        results = [
            # Numpy's allocation costs half of torch's.
            torch.from_numpy(np.empty(outer + shape, kind))
            if kind is not None
            else torch.empty(outer + shape, dtype=dtype, device="cpu")
            for shape, kind, dtype in layouts
        ]
        targets = array("q", [result.data_ptr() for result in results])
        self._loops.read_rows(
            table_at,
            targets.buffer_info()[0],
            len(results),
            env_ids.data_ptr(),
            positions.data_ptr(),
            num,
            1 if length is None else length,
            self.max_length,
            *ahead,
        )
        return results

    def filled_rows(self, current_pos: Tensor, current_size: Tensor) -> Tensor:
        """int64 [n]: the rows that hold data, by environment and then from the oldest to the newest."""
        pieces = []
        for env_id, (end, size) in enumerate(zip(current_pos.tolist(), current_size.tolist(), strict=True)):
            positions = torch.arange(end - size, end, device=self.device)
            pieces.append(env_id * self.max_length + positions % self.max_length)
        return torch.cat(pieces)

    def flush(self) -> None:
        """Writes rows that are kept in files to the disk."""
        for mapped in self._mapped:
            mapped.flush()

    def _read_with_torch(
        self, indices: Sequence[int], env_ids: Tensor, positions: Tensor, outer: tuple[int, ...]
    ) -> list[Tensor]:
        if len(outer) == 2:
            positions = positions[:, None] + torch.arange(outer[1], device=positions.device)
            env_ids = env_ids[:, None].expand_as(positions)
        rows = (env_ids * self.max_length + positions % self.max_length).reshape(-1)
        fields = [self.fields[index] for index in indices]
        groups = {group: self.rows[group].index_select(0, rows) for group in {field.group for field in fields}}
        results = []
        for field in fields:
            part = groups[field.group][:, field.offset : field.offset + field.size].contiguous()
            results.append(part.reshape(-1).view(field.dtype).reshape(*outer, *field.shape))
        return results

    def _selection(self, indices: tuple[int, ...]) -> "_Selection":
        """What the compiled copy needs to know of some fields."""
        known = self._selections.get(indices)
        if known is None:
            table = np.ascontiguousarray(self._table[list(indices)])
            self._tables.append(table)
            fields = [self.fields[index] for index in indices]
            packed = [field for field in fields if field.size <= LARGE_FIELD_BYTES]
            ahead = (0, 0, 0)
            if packed:
                start = min(field.offset for field in packed)
                end = max(field.offset + field.size for field in packed)
                rows = self.rows[packed[0].group]
                ahead = (rows.data_ptr() + start, rows.shape[1], end - start)
            layouts = [(tuple(f.shape), _numpy_dtype_or_none(f.dtype), f.dtype) for f in fields]
            known = self._selections[indices] = (table.ctypes.data, ahead, layouts)
        return known

    def _allocate(self) -> list[Tensor]:
        count = self.num_envs * self.max_length
        self._mapped: list[np.memmap] = []
        self._paths: list[Path] = []
        if self.directory is not None:
            self.directory.mkdir(parents=True, exist_ok=True)
            return [self._map(None, (count, size)) for size in self.row_sizes]
        if self.is_shared:
            rows = [torch.zeros((count, size), dtype=torch.uint8, device="cpu") for size in self.row_sizes]
            return [shared.share_memory_() for shared in rows]  # type: ignore[no-untyped-call]
        if self.device.type != "cpu":
            return [torch.zeros((count, size), dtype=torch.uint8, device=self.device) for size in self.row_sizes]
        return [_lazy_zeros(count, size) for size in self.row_sizes]

    def _map(self, path: Path | None, shape: tuple[int, int]) -> Tensor:
        """Rows in a file, a new one without `path`.

        The name of a new file is given up at once, so that nothing is left behind however the process ends; only
        files that other processes have to find keep their names until the buffer is gone.
        """
        is_new = path is None
        if path is None:
            handle, name = tempfile.mkstemp(".rows", dir=self.directory)
            os.close(handle)
            path = Path(name)
        mapped = np.memmap(path, dtype=np.uint8, mode="w+" if is_new else "r+", shape=shape)
        self._mapped.append(mapped)
        self._paths.append(path)
        if is_new and self.is_shared:
            weakref.finalize(self, path.unlink, missing_ok=True)
        elif is_new:
            path.unlink()
        return torch.from_numpy(mapped)

    def _bind(self) -> None:
        """Makes what depends on the addresses of the rows."""
        self._loops = compiled(self.device)
        outer = (self.num_envs, self.max_length)
        self._views = [_strided_view(self.rows[field.group], field, outer) for field in self.fields]
        self._selections: dict[tuple[int, ...], _Selection] = {}
        self._tables: list[np.ndarray] = []
        self._table = np.array(
            [
                (
                    self.rows[field.group].data_ptr() + field.offset,
                    self.rows[field.group].shape[1],
                    field.size,
                )
                for field in self.fields
            ],
            dtype=np.int64,
        ).reshape(-1, 3)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        for name in (
            "_loops",
            "_views",
            "_table",
            "_ring",
            "_ring_at",
            "_pos",
            "_size",
            "_tables",
            "_selections",
            "_mapped",
        ):
            del state[name]
        if self.directory is not None:
            if not self.is_shared:
                raise TypeError(
                    "a buffer kept in files can be sent to other processes only with allow_multiprocess=True"
                )
            del state["rows"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._mapped = []
        if self.directory is not None:
            count, paths = self.num_envs * self.max_length, self._paths
            self._paths = []
            self.rows = [self._map(path, (count, size)) for path, size in zip(paths, self.row_sizes, strict=True)]
        self._bind()


def _lay_out(specs: Sequence[tuple[str, TensorSpec]]) -> tuple[list[Field], list[int]]:
    """Fields in the order of `specs`, and the bytes of a row of each group.

    Fields are packed by falling size of their elements, so that each is aligned without gaps.
    """
    itemsizes = [spec.dtype.itemsize for _, spec in specs]
    sizes = [spec.numel * itemsize for (_, spec), itemsize in zip(specs, itemsizes, strict=True)]
    small = [i for i, size in enumerate(sizes) if size <= LARGE_FIELD_BYTES]
    small.sort(key=lambda i: -itemsizes[i])
    offsets: dict[int, int] = {}
    row_sizes: list[int] = []
    if small:
        end = 0
        for i in small:
            offsets[i] = end
            end += sizes[i]
        widest = max(itemsizes[i] for i in small)
        row_sizes.append(-(-end // widest) * widest)
    fields = []
    for i, (path, spec) in enumerate(specs):
        if i in offsets:
            place = (0, offsets[i])
        else:
            place = (len(row_sizes), 0)
            row_sizes.append(sizes[i])
        fields.append(Field(path, spec.shape, spec.dtype, *place, sizes[i]))
    return fields, row_sizes


def stored_fields(state: Mapping[str, Any]) -> dict[str, Tensor]:
    """The fields that are in the state of a buffer, whatever its specs were.

    Args:
        state: `state_dict()` of a `RingBuffer` or `ReplayBuffer`.

    Returns:
        By path, [total size, ...]: environment by environment, each from its oldest step to its newest.

    Raises:
        ValueError: it is no such state.
    """
    layout = _LAYOUT.fullmatch(str(state.get("layout")))
    if layout is None:
        raise ValueError("this is not the state of a replay buffer: it has no layout")
    named = []
    for text in layout[1].split("; "):
        match = _FIELD.fullmatch(text)
        dtype = getattr(torch, match[3], None) if match is not None else None
        if match is None or not isinstance(dtype, torch.dtype):
            raise ValueError(f"the replay buffer has a field {text!r:.100}, which cannot be read")
        named.append((match[1], TensorSpec(ast.literal_eval(match[2]), dtype)))
    found = {}
    for field in _lay_out(named)[0]:
        rows = state[f"rows_{field.group}"][:, field.offset : field.offset + field.size].contiguous()
        found[field.path] = rows.reshape(-1).view(field.dtype).reshape(len(rows), *field.shape)
    return found


def _lazy_zeros(count: int, size: int) -> Tensor:
    """Zeros [count, size] that begin at a cache line and take memory only as they are written."""
    block = np.zeros(count * size + _CACHE_LINE, dtype=np.uint8)
    start = -block.ctypes.data % _CACHE_LINE
    return torch.from_numpy(block[start : start + count * size].reshape(count, size))


def _strided_view(rows: Tensor, field: Field, outer: tuple[int, int]) -> Tensor:
    itemsize = field.dtype.itemsize
    typed = rows.reshape(-1).view(field.dtype)
    row = rows.shape[1] // itemsize
    inner = torch.empty(field.shape, device="meta").stride()
    strides = (outer[1] * row, row, *inner)
    return typed.as_strided((*outer, *field.shape), strides, field.offset // itemsize)


def _numpy_dtype_or_none(dtype: torch.dtype) -> np.dtype | None:
    try:
        return numpy_dtype(dtype)
    except TypeError:
        return None
