"""Data sets as replay buffers: sampled, prioritized and looked around in like any other, but never written to."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from rein import nest
from rein.data_structures import Experience, time_step_spec
from rein.nest import Nest
from rein.replay.datasets.manifest import DataSetError
from rein.replay.datasets.reader import DataSet
from rein.replay.episode_index import DISC_0_DISTANCE, DISTANCE
from rein.replay.replay_buffer import ReplayBuffer
from rein.replay.storage import Field, RowStorage
from rein.specs import TensorSpec

_BLOCK = 4096


class _ColumnStorage(RowStorage):
    """Every field in rows of its own, some of which are mapped from a file."""

    def __init__(self, specs: Sequence[tuple[str, TensorSpec]], columns: dict[str, Tensor], length: int) -> None:
        """Takes the columns as they are.

        Args:
            specs: path and spec of each field.
            columns: by path, uint8 [length, bytes of a row]; fields without one are zero and in memory.
            length: number of steps.
        """
        self.num_envs, self.max_length = 1, length
        self.device = torch.device("cpu")
        self.is_shared = False
        self.directory = None
        self.fields = [
            Field(path, spec.shape, spec.dtype, group, 0, spec.numel * spec.dtype.itemsize)
            for group, (path, spec) in enumerate(specs)
        ]
        self.row_sizes = [field.size for field in self.fields]
        # Numpy asks the system for zeros, which take no memory as long as they are only read.
        self.rows = [
            columns[field.path]
            if field.path in columns
            else torch.from_numpy(np.zeros((length, field.size), dtype=np.uint8))
            for field in self.fields
        ]
        self._mapped: list[np.memmap] = []
        self._paths: list[Path] = []
        self._bind()


class DataSetBuffer(ReplayBuffer):
    """A replay buffer of one environment over the file of a data set; nothing can be added to it."""

    def __init__(
        self, data_set: DataSet, data_spec: Experience | None = None, length: int | None = None, **options: Any
    ) -> None:
        """Maps the file.

        Args:
            data_set: what to read.
            data_spec: specs of one step as learning wants it, all of which must be in the data set; None is time step
                and action.
            length: newest steps to use; None is all.
            **options: further arguments of `ReplayBuffer`, such as `prioritized_sampling`.
        """
        self._data_set = data_set
        self._begin = max(0, data_set.num_steps - (length or data_set.num_steps))
        if data_spec is None:
            data_spec = data_set_spec(data_set)
        options.setdefault("name", data_set.path.name)
        super().__init__(data_spec, 1, data_set.num_steps - self._begin, **options)
        self._current_pos.fill_(self._max_length)
        self._current_size.fill_(self._max_length)
        if self._episodes is not None:
            self._index_episodes()
        if self._priorities is not None:
            starts = torch.arange(self._num_ignored, self._max_length)
            self._priorities.load(starts, torch.full((len(starts),), self._priorities.initial), 1)

    def _make_storage(self, specs: Sequence[tuple[str, TensorSpec]], storage_dir: str | None) -> RowStorage:
        if storage_dir is not None or self._allow_multiprocess or self._device.type != "cpu":
            raise ValueError(f"{self._name} lies in a file: it has no storage of its own, nor another device")
        columns = {}
        for path, spec in specs:
            place = _column_of(path)
            if place is None:
                if path != "time_step.env_id" and not path.startswith("("):
                    raise DataSetError(f"{self._data_set.path} has no {path}, which is asked for")
                continue
            name, shift = place
            if name not in self._data_set.columns:
                raise DataSetError(f"{self._data_set.path} has no {name}, but {sorted(self._data_set.columns)}")
            found = TensorSpec.from_array(np.empty_like(self._data_set.columns[name][:1]), 1)
            if found != TensorSpec(spec.shape, spec.dtype):
                raise DataSetError(f"{self._data_set.path}: {name} is {found}, but {path} is asked for as {spec}")
            first = self._begin + shift
            columns[path] = self._data_set.bytes_of(name)[first : first + self._max_length]
        return _ColumnStorage(specs, columns, self._max_length)

    def _index_episodes(self) -> None:
        """What adding step by step would have noted about episodes."""
        if self._record_episodic_return:
            raise ValueError(
                f"{self._name} is a data set, which does not record returns: leave record_episodic_return out"
            )
        assert self._episodes is not None
        begins = self._data_set.episode_begins - self._begin
        begins = np.unique(np.maximum(begins, 0)) if self._begin else begins
        positions = np.arange(self._max_length)
        lengths = np.diff(begins, append=self._max_length)
        distance = positions - np.repeat(begins, lengths)
        distance[begins] = 1 - lengths
        discounts = self._data_set.columns["discount"][self._begin :]
        last_zero = np.maximum.accumulate(np.where(discounts == 0, positions, 0))
        views = {field.path: self._storage.view(index) for index, field in enumerate(self._storage.fields)}
        views[DISTANCE][0] = torch.from_numpy(distance.astype(np.int32))
        views[DISC_0_DISTANCE][0] = torch.from_numpy((positions - last_zero).astype(np.int32))
        self._episodes.last_disc_0.fill_(int(last_zero[-1]))

    def _add(self, leaves: Sequence[Tensor], env_ids: Tensor, num: int) -> None:
        self._refuse_change()

    def _remove(self, env_ids: Tensor, n: int) -> None:
        self._refuse_change()

    @property
    def _adds_rows_only(self) -> bool:
        return False

    def end_open_episodes(self, env_ids: Tensor | None = None) -> None:
        """Does nothing: all episodes of a data set are over."""

    def load_state_dict(self, state: Any) -> None:
        """Refuses: what a data set holds is in its file."""
        self._refuse_change()

    def _refuse_change(self) -> NoReturn:
        raise TypeError(
            f"{self._name} is a data set, which is only read: put what is to be added into a `ReplayBuffer`"
        )


def data_set_spec(data_set: DataSet) -> Experience:
    """Specs of the steps of a data set: time step and action."""
    observation, action, reward = data_set.specs
    return Experience(time_step=time_step_spec(observation, action, reward), action=action)


def make_offline_buffer(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    data_spec: Experience | None = None,
    length: int | None = None,
    **options: Any,
) -> ReplayBuffer:
    """Data sets to learn from, verified: one is read from its file, several are put into memory one after the other.

    Args:
        paths: one or several files.
        data_spec: see `DataSetBuffer`.
        length: newest steps to use of each; None is all.
        **options: further arguments of `ReplayBuffer`, such as `prioritized_sampling`.

    Raises:
        DataSetError: a file cannot be used, or all together do not fit into memory.
    """
    files = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if not files:
        raise DataSetError("there is no data to learn from: name at least one data set")
    if length is not None and length < 1:
        raise ValueError(f"length is {length}: give at least 1, or None for all")
    data_sets = [DataSet.open(file) for file in files]
    for other in data_sets[1:]:
        other.require_specs(data_sets[0].specs, f"the first file, {data_sets[0].path},")
    for data_set in data_sets:
        data_set.verify()
    data_spec = data_set_spec(data_sets[0]) if data_spec is None else data_spec
    if len(data_sets) == 1:
        return DataSetBuffer(data_sets[0], data_spec, length, **options)
    _check_memory(data_sets)
    parts = [DataSetBuffer(data_set, data_spec, length) for data_set in data_sets]
    options.setdefault("name", " + ".join(data_set.path.name for data_set in data_sets))
    buffer = ReplayBuffer(data_spec, 1, sum(part.total_size for part in parts), **options)
    for part in parts:
        _append(buffer, part)
    return buffer


def _append(buffer: ReplayBuffer, part: DataSetBuffer) -> None:
    ids = torch.zeros(1, dtype=torch.int64)
    for begin in range(0, part.total_size, _BLOCK):
        count = min(_BLOCK, part.total_size - begin)
        steps: Nest = part.get_field("", ids.expand(count), torch.arange(begin, begin + count))
        buffer.add_rollout(nest.map_structure(lambda leaf: leaf.unsqueeze(1), steps))


def _check_memory(data_sets: Sequence[DataSet]) -> None:
    needed, free = sum(data_set.num_bytes for data_set in data_sets), _free_memory()
    if needed > free // 2:
        names = " ".join(str(data_set.path) for data_set in data_sets)
        raise DataSetError(
            f"{len(data_sets)} data sets of {needed / 2**30:.1f} GB do not fit into the {free / 2**30:.1f} GB of free "
            f"memory: make one file of them, which is read from the disk, by `rein data join {names} --out FILE`"
        )


def _free_memory() -> int:
    """Bytes that may be taken without swapping, where the system tells, else all there are."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1])
    except (OSError, StopIteration):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _column_of(path: str) -> tuple[str, int] | None:
    """The column that holds a field of a step, and how many rows later; None if no column does."""
    if path.startswith("time_step.prev_action"):
        return "action" + path.removeprefix("time_step.prev_action"), 0
    if path.startswith("time_step."):
        name = path.removeprefix("time_step.")
        return None if name == "env_id" else (name, 0)
    if path == "action" or path.startswith("action."):
        return path, 1
    return None
