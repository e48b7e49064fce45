"""Writing data sets: episode by episode, whatever their number, and never half a file."""

import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from rein.data_structures import Experience
from rein.nest import Nest
from rein.replay.datasets.episodes import episode_columns
from rein.replay.datasets.manifest import (
    EPISODE_BEGIN,
    EPISODE_SOURCE,
    DataSetError,
    Manifest,
    Specs,
    column_specs,
    to_metadata,
)
from rein.replay.datasets.reader import DataSet
from rein.runtime.checkpoint import strict_json
from rein.runtime.checkpoint.dtypes import NUMPY_STORAGE
from rein.specs import TensorSpec, numpy_dtype

_ALIGNMENT = 64
_COPY_BYTES = 16 << 20


class DataSetWriter:
    """Writes one data set; use it in a `with` statement, which leaves no file behind if it fails."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        observation_spec: Nest,
        action_spec: Nest,
        reward_spec: TensorSpec = TensorSpec(()),
        overwrite: bool = False,
    ) -> None:
        """Begins a data set without episodes.

        Args:
            path: of the file; its directory is made if it is missing.
            observation_spec: specs of the observation; dicts and tuples of tensors.
            action_spec: specs of the action.
            reward_spec: a scalar, or a vector for several rewards.
            overwrite: replace a file that is there.
        """
        if sys.byteorder != "little":
            raise DataSetError("data sets can be written on little-endian machines only")
        self.path = Path(path)
        if self.path.is_dir() or (self.path.exists() and not overwrite):
            raise DataSetError(f"{self.path} exists: give another name, or say that it may be replaced")
        self.specs = Specs(observation_spec, action_spec, reward_spec)
        to_metadata(Manifest(self.specs, 0, 0, (), {}))  # Refuses what cannot be written before anything is recorded.
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._parts = Path(tempfile.mkdtemp(prefix=f".{self.path.name}.", dir=self.path.parent))
        self._columns = {name: _Column(self._parts / str(i), spec) for i, (name, spec) in enumerate(_all(self.specs))}
        self._sources: list[dict[str, Any]] = []
        self.num_steps = 0
        self.num_episodes = 0
        self._actions = [name for name in self._columns if name == "action" or name.startswith("action.")]
        for name in self._actions:  # What led to the first step: nothing.
            column = self._columns[name]
            column.write(np.zeros((1, *column.spec.shape), numpy_dtype(column.spec.dtype)))

    def add_source(self, facts: Mapping[str, Any]) -> int:
        """Tells how episodes are made that are added from now on; returns the number of the source.

        Args:
            facts: plain values, such as the run, the environment and the seed.
        """
        strict_json.dump(dict(facts))
        self._sources.append(dict(facts))
        return len(self._sources) - 1

    def add_episode(self, episode: Experience, source: int | None = None) -> None:
        """Appends an episode.

        Args:
            episode: n steps [n, ...] from FIRST to LAST; `time_step` and `action` are read. The action at LAST is
                stored as zero.
            source: number of its source; None is the last one that was added.

        Raises:
            DataSetError: it does not fit, or holds what is not finite; the message names episode and field.
        """
        source = len(self._sources) - 1 if source is None else source
        if not 0 <= source < len(self._sources):
            raise ValueError(f"source {source} was not added: there are {len(self._sources)}")
        for name, rows in episode_columns(episode, self.specs, self.num_episodes, str(self.path)).items():
            self._columns[name].write(rows)
        self._columns[EPISODE_BEGIN].write(np.array([self.num_steps], np.int64))
        self._columns[EPISODE_SOURCE].write(np.array([source], np.int64))
        self.num_steps += len(episode.step_type)
        self.num_episodes += 1

    def close(self) -> Path:
        """Puts the file in its place at once, and returns where.

        Raises:
            DataSetError: no episode was added.
        """
        if not self.num_episodes:
            self.discard()
            raise DataSetError(f"{self.path} would hold no episode: it was not written")
        for column in self._columns.values():
            column.file.close()
        # Widest elements first, so that each column begins at a multiple of its element size.
        order = sorted(self._columns, key=lambda name: -numpy_dtype(self._columns[name].spec.dtype).itemsize)
        whole = self._parts / "whole"
        with whole.open("wb") as file:
            file.write(self._header(order))
            for name in order:
                with self._columns[name].path.open("rb") as part:
                    shutil.copyfileobj(part, file, _COPY_BYTES)
                self._columns[name].path.unlink()
            file.flush()
            os.fsync(file.fileno())
        os.replace(whole, self.path)
        self.discard()
        return self.path

    def discard(self) -> None:
        """Forgets all that was added."""
        for column in self._columns.values():
            column.file.close()
        shutil.rmtree(self._parts, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._parts.exists():
            return
        if error is None:
            self.close()
        else:
            self.discard()

    def _header(self, order: list[str]) -> bytes:
        checksums = {name: column.digest.hexdigest() for name, column in sorted(self._columns.items())}
        manifest = Manifest(self.specs, self.num_steps, self.num_episodes, tuple(self._sources), checksums)
        header: dict[str, Any] = {"__metadata__": to_metadata(manifest)}
        position = 0
        for name in order:
            column = self._columns[name]
            code = NUMPY_STORAGE[numpy_dtype(column.spec.dtype).str].code
            end = position + column.size
            shape = [column.rows, *column.spec.shape]
            header[name] = {"dtype": code, "shape": shape, "data_offsets": [position, end]}
            position = end
        text = strict_json.dump(header)
        text += b" " * (-(8 + len(text)) % _ALIGNMENT)
        return len(text).to_bytes(8, "little") + text


class _Column:
    """A file that grows by rows."""

    def __init__(self, path: Path, spec: TensorSpec) -> None:
        self.path = path
        self.spec = spec
        self.file = path.open("wb")
        self.digest = hashlib.sha256()
        self.rows = 0
        self.size = 0

    def write(self, rows: np.ndarray) -> None:
        content = np.ascontiguousarray(rows).reshape(-1).view(np.uint8).data
        self.file.write(content)
        self.digest.update(content)
        self.rows += len(rows)
        self.size += len(content)


def _all(specs: Specs) -> list[tuple[str, TensorSpec]]:
    import torch

    number = TensorSpec((), torch.int64)
    return [*column_specs(specs).items(), (EPISODE_BEGIN, number), (EPISODE_SOURCE, number)]


def join_data_sets(
    sources: Sequence[str | os.PathLike[str]], path: str | os.PathLike[str], overwrite: bool = False
) -> Path:
    """One data set with the episodes of several, in that order; returns its path.

    Args:
        sources: files of equal specs.
        path: of the new file.
        overwrite: replace a file that is there.
    """
    data_sets = [DataSet.open(source) for source in sources]
    if not data_sets:
        raise DataSetError("there is nothing to join: name at least one data set")
    first = data_sets[0]
    for other in data_sets[1:]:
        other.require_specs(first.specs, f"the first file, {first.path},")
    with DataSetWriter(path, *first.specs, overwrite=overwrite) as writer:
        for data_set in data_sets:
            data_set.verify()
            numbers = [writer.add_source(facts) for facts in data_set.manifest.sources]
            for index in range(data_set.num_episodes):
                writer.add_episode(data_set.episode(index), numbers[int(data_set.episode_sources[index])])
    return writer.path
