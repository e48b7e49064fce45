"""The runs below some folders, found again and again, and what was read of them, kept until their files change."""

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from rein.config.plain_files import PlainFileError, read_json
from rein.runtime.scalar_files import SCALARS_FILE, ScalarFile, ScalarSeries
from rein.runtime.scalar_helpers import Helper
from rein.training.run_directory import RunDirectory, RunDirectoryError

_DEEPEST = 8
_MOST_RUNS = 5_000
_SECONDS_BETWEEN_SCANS = 2.0


ODD = (RunDirectoryError, OSError, ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError)
"""What files of a run can cause that are no files of a run, whatever they say."""


class UnknownRunError(KeyError):
    """There is no run of that id on the shelf."""


class ShelvedRun:
    """One run, and what was read of it.

    Attributes:
        id: short and stable, made from where the run is.
        place: its path below the folder that was given, to be shown.
        directory: where it is.
    """

    def __init__(self, directory: RunDirectory, place: str) -> None:
        """Names a run; nothing is read yet.

        Args:
            directory: of the run.
            place: to be shown.
        """
        self.id = hashlib.sha256(os.fsencode(directory.path)).hexdigest()[:12]
        self.place = place
        self.directory = directory
        self._lock = threading.RLock()
        self._kept: dict[str, tuple[Any, Any]] = {}
        self._scalars = ScalarFile(directory.summaries / SCALARS_FILE)

    def record(self) -> dict[str, Any]:
        """The content of run.json.

        Raises:
            RunDirectoryError: it is damaged.
        """
        found: dict[str, Any] = self.kept("record", self.directory.path / "run.json", self.directory.record)
        return found

    def evaluations(self) -> list[dict[str, Any]]:
        """All evaluations."""
        found: list[dict[str, Any]] = self.kept(
            "evaluations", self.directory.evaluations, self.directory.read_evaluations
        )
        return found

    def agent(self) -> Any:
        """The tree of the agent, or None."""
        return self.kept("agent", self.directory.agent, lambda: self._json(self.directory.agent))

    def timing(self) -> Any:
        """Where the time goes, or None."""
        return self.kept("timing", self.directory.timing, lambda: self._json(self.directory.timing))

    def series(self) -> dict[str, ScalarSeries]:
        """All scalars by name; nothing if there are none, or if they lie outside of the run."""
        path = self.directory.summaries / SCALARS_FILE
        with self._lock:
            try:
                return self._scalars.read() if is_inside(path, self.directory.path) else {}
            except (ValueError, OSError):
                return {}

    @property
    def bytes_unread(self) -> int:
        """Bytes of scalars that were not read yet."""
        return self._scalars.bytes_left

    def read_by(self, helper: Helper) -> None:
        """Has another process read the scalars, if nobody has yet; who asks for them meanwhile waits.

        Args:
            helper: that process.

        Raises:
            HelperError: it did not.
        """
        with self._lock:
            path = self._scalars.path
            if self._scalars.where()[1] == 0 and path.is_file() and is_inside(path, self.directory.path):
                helper.read(self._scalars)

    def stamp(self) -> tuple[int, ...]:
        """Changes when what curves are made of does."""
        directory = self.directory
        paths = (directory.summaries / SCALARS_FILE, directory.evaluations, directory.path / "run.json")
        return tuple(part for path in paths for part in (_stamp(path) or (0, 0)))

    def kept(self, what: str, path: Path, read: Callable[[], Any]) -> Any:
        """What `read` returns for a file, called again only when the file has changed.

        Args:
            what: names what is kept.
            path: the file that it comes from.
            read: reads it.
        """
        stamp = _stamp(path)
        with self._lock:
            if what not in self._kept or self._kept[what][0] != stamp:
                self._kept[what] = (stamp, read())
            return self._kept[what][1]

    def _json(self, path: Path) -> Any:
        try:
            return read_json(path, self.directory.path)
        except (PlainFileError, OSError):
            return None


class Shelf:
    """The runs at or below some folders.

    Attributes:
        folders: that were given.
    """

    def __init__(self, folders: Iterable[str | os.PathLike[str]]) -> None:
        """Looks at folders; runs that begin later are found later.

        Args:
            folders: runs, or folders with runs in them.

        Raises:
            RunDirectoryError: one is no folder.
        """
        self.folders = [Path(folder) for folder in folders]
        for folder in self.folders:
            if not folder.is_dir():
                raise RunDirectoryError(f"there is no folder {folder}: give runs, or folders with runs in them")
        self._lock = threading.Lock()
        self._runs: dict[str, ShelvedRun] = {}
        self._scanned_at = -float("inf")

    def runs(self) -> list[ShelvedRun]:
        """All runs, those with the newest files first."""
        with self._lock:
            if time.monotonic() - self._scanned_at > _SECONDS_BETWEEN_SCANS:
                self._scan()
                self._scanned_at = time.monotonic()
            return list(self._runs.values())

    def run(self, id_: str) -> ShelvedRun:
        """The run of an id.

        Raises:
            UnknownRunError: there is none.
        """
        found = self._runs.get(id_) or {run.id: run for run in self.runs()}.get(id_)
        if found is None:
            raise UnknownRunError(id_)
        return found

    def chosen(self, ids: Sequence[str]) -> list[ShelvedRun]:
        """The runs of some ids, those that exist; all without any."""
        if not ids:
            return self.runs()
        known = {run.id: run for run in self.runs()}
        return [known[id_] for id_ in ids if id_ in known]

    def _scan(self) -> None:
        found: dict[str, ShelvedRun] = {}
        for folder in self.folders:
            root = Path(os.path.realpath(folder))
            for path in _run_folders(root, _DEEPEST):
                inside = path.relative_to(root)
                place = str(inside) if inside.parts else root.name
                run = ShelvedRun(RunDirectory(path), place if len(self.folders) == 1 else f"{folder.name}/{place}")
                found[run.id] = self._runs.get(run.id, run)
                if len(found) >= _MOST_RUNS:
                    break
        newest = sorted(found.values(), key=lambda run: _stamp(run.directory.path / "run.json") or (0, 0), reverse=True)
        self._runs = {run.id: run for run in newest}


def is_inside(path: str | os.PathLike[str], folder: str | os.PathLike[str]) -> bool:
    """Whether a path lies in a folder after all links."""
    root, real = os.path.realpath(folder), os.path.realpath(path)
    return os.path.commonpath([root, real]) == root


def _run_folders(folder: Path, deeper: int) -> Iterable[Path]:
    """Folders with a run.json; links are not followed, and there are no runs in runs."""
    if (folder / "run.json").is_file():
        if is_inside(folder / "run.json", folder):
            yield folder
        return
    if deeper == 0:
        return
    try:
        inside = sorted(one.name for one in os.scandir(folder) if one.is_dir(follow_symlinks=False))
    except OSError:
        return
    for name in inside:
        if not name.startswith("."):
            yield from _run_folders(folder / name, deeper - 1)


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_mtime_ns, facts.st_size
