"""Reading data sets through the memory map of the system: nothing is loaded before it is asked for."""

import mmap
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rein import nest
from rein.data_structures import Experience, TimeStep
from rein.nest import Nest
from rein.replay.datasets.checks import verify_columns
from rein.replay.datasets.manifest import (
    EPISODE_BEGIN,
    EPISODE_SOURCE,
    DataSetError,
    Manifest,
    Specs,
    column_specs,
    from_metadata,
    num_rows,
)
from rein.runtime.checkpoint.dtypes import NUMPY_STORAGE
from rein.runtime.checkpoint.errors import CheckpointError
from rein.runtime.checkpoint.tensor_file import Header, parse_header
from rein.specs import TensorSpec, numpy_dtype


def is_data_set(path: str | os.PathLike[str]) -> bool:
    """Whether a path names a file, as data sets are; saved replay buffers are directories."""
    return Path(path).is_file()


class DataSet:
    """A data set that was opened to be read; the file must not change meanwhile.

    Attributes:
        path: of the file.
        manifest: what it says about itself.
        columns: numpy arrays by name, mapped from the file and not writable; see `rein.replay.datasets.manifest`.
    """

    def __init__(self, path: Path, manifest: Manifest, columns: dict[str, np.ndarray], mapped: mmap.mmap) -> None:
        """Keeps the parts; use `open`."""
        self.path = path
        self.manifest = manifest
        self.columns = columns
        self._mapped = mapped
        self._is_verified = False

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "DataSet":
        """Opens a file and checks that it is complete; `verify` checks what is in it.

        Raises:
            DataSetError: there is no such file, it is cut short, empty, or not a data set.
        """
        path = Path(path)
        if not path.is_file():
            raise DataSetError(f"there is no data set {path}: record one with `rein record RUN --out {path}`")
        if path.stat().st_size == 0:
            raise DataSetError(f"{path} is an empty file: record it again")
        with path.open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            header = parse_header(memoryview(mapped), str(path))
        except CheckpointError as error:
            raise DataSetError(f"{path} is cut short, or not a data set: {error}") from error
        manifest = from_metadata(header.metadata, path)
        if manifest.episodes == 0:
            raise DataSetError(f"{path} holds no episode: record it again")
        return cls(path, manifest, _map_columns(path, manifest, header, mapped), mapped)

    @property
    def specs(self) -> Specs:
        """Specs of observation, action and reward."""
        return self.manifest.specs

    @property
    def num_steps(self) -> int:
        """Number N of steps; one more per episode than actions were taken."""
        return self.manifest.steps

    @property
    def num_episodes(self) -> int:
        """Number E of episodes."""
        return self.manifest.episodes

    @property
    def num_bytes(self) -> int:
        """Size of the file."""
        return len(self._mapped)

    @property
    def episode_begins(self) -> np.ndarray:
        """int64 [E]: where each episode begins."""
        return self.columns[EPISODE_BEGIN]

    @property
    def episode_sources(self) -> np.ndarray:
        """int64 [E]: index into the sources of the manifest."""
        return self.columns[EPISODE_SOURCE]

    @property
    def episode_lengths(self) -> np.ndarray:
        """int64 [E]: numbers of actions that were taken."""
        return np.diff(self.episode_begins, append=self.num_steps) - 1

    @property
    def episode_returns(self) -> np.ndarray:
        """float64 [E] or [E, D]: sums of rewards."""
        return np.add.reduceat(self.columns["reward"], self.episode_begins, axis=0, dtype=np.float64)

    def verify(self) -> None:
        """Reads all of it once: checksums, finite numbers, complete episodes, actions within reach.

        Raises:
            DataSetError: the message names the column and, where it can, the episode.
        """
        if self._is_verified:
            return
        self._mapped.madvise(mmap.MADV_SEQUENTIAL)
        verify_columns(str(self.path), self.manifest, self.columns)
        self._mapped.madvise(mmap.MADV_RANDOM)  # From now on single rows are read.
        self._is_verified = True

    def require_specs(self, wanted: Specs, whose: str) -> None:
        """Raises `DataSetError` unless steps look as `wanted`; bounds may differ.

        Args:
            wanted: specs of observation, action and reward.
            whose: whose specs these are, for the message.
        """
        for kind, mine, theirs in zip(Specs._fields, self.specs, wanted, strict=True):
            found, expected = (dict(nest.flatten_with_paths(part)) for part in (mine, theirs))
            for path in sorted(found.keys() | expected.keys()):
                name = f"{kind}.{path}" if path else kind
                one, other = found.get(path), expected.get(path)
                if one is None or other is None or not _is_alike(one, other):
                    raise DataSetError(
                        f"{self.path} does not fit: its {name} is {one or 'missing'}, that of {whose} is "
                        f"{other or 'missing'}"
                    )

    def episode(self, index: int) -> Experience:
        """A copy of one episode, [n, ...] from FIRST to LAST."""
        begin = int(self.episode_begins[index])
        return self.steps(begin, begin + int(self.episode_lengths[index]) + 1)

    def steps(self, begin: int, end: int) -> Experience:
        """A copy of the steps [begin, end), which may belong to several episodes."""

        def rows(kind: str, spec: Nest, shift: int = 0) -> Nest:
            named = nest.flatten_with_paths(spec)
            leaves = [
                torch.from_numpy(
                    np.array(self.columns[f"{kind}.{path}" if path else kind][begin + shift : end + shift])
                )
                for path, _ in named
            ]
            return leaves[0] if isinstance(spec, TensorSpec) else nest.pack_sequence_as(spec, leaves)

        time_step = TimeStep(
            step_type=torch.from_numpy(np.array(self.columns["step_type"][begin:end])),
            reward=torch.from_numpy(np.array(self.columns["reward"][begin:end])),
            discount=torch.from_numpy(np.array(self.columns["discount"][begin:end])),
            observation=rows("observation", self.specs.observation),
            prev_action=rows("action", self.specs.action),
            env_id=torch.zeros(end - begin, dtype=torch.int64),
        )
        return Experience(time_step=time_step, action=rows("action", self.specs.action, shift=1))

    def bytes_of(self, column: str) -> Tensor:
        """uint8 [rows, bytes of a row] of a column, mapped from the file: writing to it would end the process."""
        rows = self.columns[column]
        flat = rows.reshape(len(rows), -1).view(np.uint8)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # That it is not writable is what is wanted.
            return torch.from_numpy(flat)

    def describe(self) -> dict[str, Any]:
        """Facts in plain values."""
        returns, lengths = self.episode_returns, self.episode_lengths
        scalars = returns if returns.ndim == 1 else returns.sum(1)
        per_source = []
        for number, facts in enumerate(self.manifest.sources):
            chosen = self.episode_sources == number
            summary = {"episodes": int(chosen.sum()), "transitions": int(lengths[chosen].sum())}
            mean = {"mean_return": float(scalars[chosen].mean())} if chosen.any() else {}
            per_source.append({**facts, **summary, **mean})
        return {
            "path": str(self.path),
            "bytes": self.num_bytes,
            "episodes": self.num_episodes,
            "transitions": int(lengths.sum()),
            "returns": {
                "mean": float(scalars.mean()),
                "std": float(scalars.std()),
                "min": float(scalars.min()),
                "max": float(scalars.max()),
            },
            "lengths": {"mean": float(lengths.mean()), "min": int(lengths.min()), "max": int(lengths.max())},
            "specs": {name: str(spec) for name, spec in column_specs(self.specs).items()},
            "checksums": dict(self.manifest.checksums),
            "sources": per_source,
        }


def _is_alike(one: TensorSpec, other: TensorSpec) -> bool:
    """Whether tensors of both look alike; how many values a discrete one has counts, other bounds do not."""
    alike = one.shape == other.shape and one.dtype == other.dtype
    if alike and one.is_discrete and one.is_bounded and other.is_bounded:
        return one == other
    return alike


def _map_columns(path: Path, manifest: Manifest, header: Header, mapped: mmap.mmap) -> dict[str, np.ndarray]:
    number = TensorSpec((), torch.int64)
    wanted = {**column_specs(manifest.specs), EPISODE_BEGIN: number, EPISODE_SOURCE: number}
    if header.entries.keys() != wanted.keys() or manifest.checksums.keys() != wanted.keys():
        raise DataSetError(f"{path} has the columns {sorted(header.entries)}, but its specs need {sorted(wanted)}")
    columns = {}
    for name, spec in wanted.items():
        entry, dtype = header.entries[name], numpy_dtype(spec.dtype)
        shape = (num_rows(name, manifest.steps, manifest.episodes), *spec.shape)
        if entry.code != NUMPY_STORAGE[dtype.str].code or entry.shape != shape:
            raise DataSetError(
                f"{path}: {name} has shape {entry.shape} and type {entry.code}, but its specs need {shape} of {dtype}"
            )
        count = int(np.prod(shape, dtype=np.int64))
        offset = header.data_start + entry.begin
        columns[name] = np.frombuffer(mapped, dtype=dtype, count=count, offset=offset).reshape(shape)
    return columns
