"""A directory of checkpoints: saved so that a crash at any instant loses nothing already saved.

A save fills a hidden directory next to the checkpoints, the manifest last, each file and then the
directory written through to the disk; renames it to ``ckpt-<step>``, a name that did not exist; and
writes the parent through. So a checkpoint is there completely or not at all.
"""

import logging
import operator
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from errno import EEXIST, ENOTEMPTY
from pathlib import Path
from typing import Any, TypeVar

from rein.runtime.checkpoint.archive import (
    Checkpoint,
    read_archive,
    read_manifest,
    verify_archive,
    write_archive,
)
from rein.runtime.checkpoint.durable import (
    make_directories,
    remove_directory,
    remove_leftovers,
    saving_name,
    sync_directory,
)
from rein.runtime.checkpoint.encoding import EncodedComponent, encode_component
from rein.runtime.checkpoint.errors import (
    CheckpointError,
    CheckpointNotFoundError,
    DamagedCheckpointError,
)
from rein.runtime.checkpoint.manifest import MAX_STEP, Manifest, check_component_names

logger = logging.getLogger(__name__)

_CHECKPOINT = re.compile(r"ckpt-(0|[1-9]\d{0,18})", re.ASCII)
_Read = TypeVar("_Read")


class Checkpointer:
    """Saves and loads the checkpoints of one run.

    Args:
        directory: where they are; created by the first save.
        keep: how many of the latest checkpoints stay after a save; None keeps all.
        keep_every: checkpoints whose step is a multiple of this stay for ever.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        keep: int | None = None,
        keep_every: int | None = None,
    ) -> None:
        for name, value in (("keep", keep), ("keep_every", keep_every)):
            if value is not None and (type(value) is not int or value < 1):
                raise ValueError(f"{name} must be a positive int or None, not {value!r}")
        self._directory = Path(directory)
        self._keep = keep
        self._keep_every = keep_every

    @property
    def directory(self) -> Path:
        """Where the checkpoints are."""
        return self._directory

    def path(self, step: int) -> Path:
        """Where the checkpoint of `step` is, or would be."""
        return self._directory / f"ckpt-{_checked_step(step)}"

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, ascending; verified or not."""
        try:
            names = os.listdir(self._directory)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise CheckpointError(f"the checkpoints in {self._directory} cannot be listed: {error}") from error
        return sorted(int(match[1]) for match in map(_CHECKPOINT.fullmatch, names) if match)

    def save(self, step: int, components: Mapping[str, Any]) -> Path:
        """Saves a checkpoint and gives its directory, once it is safe on the disk.

        Saving a step again is accepted if the content is the same. A damaged checkpoint of the same
        step is renamed (`set_aside`).

        Args:
            step: at least 0, for example gradient updates so far.
            components: state of each component: a nest of dicts, lists, tuples, NamedTuples,
                tensors, arrays, numbers, strings, bytes and None.

        Raises:
            TypeError: a component holds something else; nothing was written.
            ValueError: a name or the step is wrong, or a state contains itself; nothing was written.
            CheckpointError: the disk refused, or the step has other content; what was saved before
                is untouched.
        """
        step = _checked_step(step)
        check_component_names(list(components))
        encoded = {name: encode_component(name, state) for name, state in components.items()}
        try:
            path = self._write(step, encoded)
        except OSError as error:
            raise CheckpointError(
                f"step {step} was not saved in {self._directory}: {error}. Earlier checkpoints are "
                "untouched; free some space or fix the permissions, then save again"
            ) from error
        self._prune(step)
        return path

    def load(
        self, step: int | None = None, components: Iterable[str] | None = None, optional: Iterable[str] = ()
    ) -> Checkpoint:
        """The checkpoint of `step`, or the newest one that is intact.

        Each damaged checkpoint that is newer than the one returned is logged as a warning. Tensors
        come back on the CPU; those over 64 MB may be private memory maps of the file.

        Args:
            step: None means the newest.
            components: which ones to read and verify; None means all.
            optional: further ones to read where there are such.

        Raises:
            CheckpointNotFoundError: there is none (of that step).
            CheckpointError: there are some but none is intact, or the newest cannot be read or was
                written by a newer Rein.
            ValueError: the checkpoint lacks one of `components`.
        """
        wanted = None if components is None else list(components)
        if step is None:
            return self._newest(lambda path: read_archive(path, wanted, optional))
        path = self.path(step)
        if not os.path.lexists(path):
            raise CheckpointNotFoundError(f"{path} does not exist; there are steps {self.steps()}")
        return read_archive(path, wanted, optional)

    def latest_step(self) -> int | None:
        """The step that `load()` would load; None if there is no checkpoint at all.

        Raises:
            CheckpointError: as `load`.
        """
        try:
            return self._newest(verify_archive).step
        except CheckpointNotFoundError:
            return None

    def verify(self, path: str | os.PathLike[str]) -> Manifest:
        """The manifest of the checkpoint at `path`, every byte of which was checked.

        Raises:
            CheckpointError: it is damaged, cannot be read, or was written by a newer Rein.
        """
        return verify_archive(Path(path).resolve())

    def set_aside(self, step: int) -> Path:
        """Renames the checkpoint of `step` so that it no longer counts, and gives its new path.

        Raises:
            CheckpointError: it does not exist or cannot be renamed.
        """
        path = self.path(step)
        number = 0
        while True:
            target = path.with_name(f"aside-{path.name}" + (f"-{number}" if number else ""))
            if not os.path.lexists(target):
                break
            number += 1
        try:
            os.rename(path, target)
            sync_directory(self._directory)
        except OSError as error:
            raise CheckpointError(f"{path} could not be set aside: {error}") from error
        return target

    def _write(self, step: int, encoded: Mapping[str, EncodedComponent]) -> Path:
        make_directories(self._directory)
        remove_leftovers(self._directory)
        temporary = self._directory / saving_name(step)
        os.mkdir(temporary)
        try:
            manifest = write_archive(temporary, step, encoded)
            return self._publish(temporary, manifest)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def _publish(self, temporary: Path, manifest: Manifest) -> Path:
        path = self.path(manifest.step)
        while True:
            if os.path.lexists(path) and self._holds_already(path, manifest):
                break
            try:
                os.rename(temporary, path)
                break
            except OSError as error:
                # Another process saved the same step since we looked: look again.
                if error.errno not in (ENOTEMPTY, EEXIST):
                    raise
        sync_directory(self._directory)
        return path

    def _holds_already(self, path: Path, manifest: Manifest) -> bool:
        try:
            found = verify_archive(path)
        except DamagedCheckpointError as error:
            if os.path.lexists(path):
                aside = self.set_aside(manifest.step)
                logger.warning("%s was damaged and is now %s: %s", path, aside, error)
            return False
        if found != manifest:
            raise CheckpointError(
                f"step {manifest.step} was not saved: {path} already holds other content. Save "
                "under another step or in another directory, or move that checkpoint away"
            )
        return True

    def _prune(self, saved: int) -> None:
        """Removes checkpoints before step `saved` that need not stay; never a damaged one."""
        if self._keep is None:
            return
        kept = 1
        try:
            for step in reversed([step for step in self.steps() if step < saved]):
                if self._keep_every is not None and step % self._keep_every == 0:
                    continue
                try:
                    read_manifest(self.path(step))
                except CheckpointError:
                    continue
                kept += 1
                if kept > self._keep:
                    remove_directory(self.path(step), step)
        except (OSError, CheckpointError) as error:
            # The save itself succeeded, and says so.
            logger.warning("old checkpoints in %s could not be removed: %s", self._directory, error)

    def _newest(self, read: Callable[[Path], _Read]) -> _Read:
        """What `read` gives for the newest checkpoint that it does not find damaged."""
        damaged: dict[int, DamagedCheckpointError] = {}
        while steps := [step for step in self.steps() if step not in damaged]:
            path = self.path(steps[-1])
            try:
                return read(path)
            except DamagedCheckpointError as error:
                if not os.path.lexists(path):
                    continue  # Removed by the process that saves, so there is a newer one.
                damaged[steps[-1]] = error
                logger.warning("skipped the damaged checkpoint %s: %s", path, error)
        if damaged:
            reasons = "".join(f"\n  {error}" for error in damaged.values())
            raise CheckpointError(
                f"{self._directory} has checkpoints but none is intact:{reasons}\nRestore one from "
                "a copy, or use a new directory to start afresh"
            )
        raise CheckpointNotFoundError(f"there is no checkpoint in {self._directory}")


def _checked_step(step: int) -> int:
    try:
        number = operator.index(step)
    except TypeError:
        number = -1
    if isinstance(step, bool) or not 0 <= number <= MAX_STEP:
        raise ValueError(f"a step must be an int from 0 to {MAX_STEP}, not {step!r}")
    return number
