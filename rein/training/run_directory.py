"""The directory that a run leaves behind.

run.json          what ran: versions, hardware, command, seed, status
config/           the configuration, from which the run can be rebuilt
agent.json        the components of the agent, as a tree
specs.json        of a run without an environment: what its data said about the world
summaries/        scalars.jsonl and TensorBoard events
checkpoints/      ckpt-N, newest last
policies/         policies that callbacks keep, such as the best
evaluations.jsonl one line per evaluation
log.txt           warnings, faults and the traceback of a failure
timing.json       seconds by section of the program, since the run was last started
matches.json      games against named opponents, with ratings
videos/           recorded episodes
plans/            pictures of what a planning policy imagines
report.html       everything above on one page
"""

import json
import logging
import os
import platform
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rein.config.plain_files import PlainFileError, read_json, read_plain, replace_file
from rein.training.hardware import describe_machine
from rein.training.run_lock import LOCK_FILE, RunIsLockedError, RunLock

logger = logging.getLogger(__name__)
_RUN_FILE = "run.json"
_BEGINNINGS = {"config", "agent.json", "specs.json", "summaries", "code", "checkpoints", LOCK_FILE}
"""What a run may have written before run.json, from which on it can be resumed."""


class RunDirectoryError(ValueError):
    """A directory cannot be used for a run; nothing in it was changed."""


class RunDirectory:
    """Paths and records of one run.

    Attributes:
        path: where it is.
        is_trusted: whether code that was saved with the run may be run again.
    """

    def __init__(self, path: str | os.PathLike[str], trust: bool = False) -> None:
        """Names the directory; use `create` or `open` to check it."""
        self.path = Path(path)
        self.is_trusted = trust
        self._lock = RunLock(self.path)

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> "RunDirectory":
        """Makes a directory for a new run, and keeps other processes from training in it.

        A directory in which a run was killed before it could be resumed is used again.

        Raises:
            RunDirectoryError: it exists and is not empty, or another process has just begun a run there.
        """
        directory = cls(path, trust=True)
        if (directory.path / _RUN_FILE).exists():
            raise RunDirectoryError(
                f"{directory.path} holds another run: give another directory, or continue that run with "
                f"`rein resume {directory.path}`"
            )
        if directory.path.exists() and not (directory.path.is_dir() and directory._is_beginning()):
            raise RunDirectoryError(f"{directory.path} exists and is not empty: give another directory for the run")
        directory.path.mkdir(parents=True, exist_ok=True)
        directory.lock()
        if (directory.path / _RUN_FILE).exists():  # Somebody was faster, and has ended since.
            directory.unlock()
            raise RunDirectoryError(f"{directory.path} holds another run: give another directory")
        directory._clear()
        return directory

    def _is_beginning(self) -> bool:
        """Whether the directory is empty, or holds what a run left that was killed before it could be resumed."""
        names = {one.name for one in self.path.iterdir()}
        return not names or (LOCK_FILE in names and all(one in _BEGINNINGS or _is_part(one) for one in names))

    def _clear(self) -> None:
        """Removes all but the lock."""
        for one in self.path.iterdir():
            if one.name == LOCK_FILE:
                continue
            if one.is_dir() and not one.is_symlink():
                shutil.rmtree(one)
            else:
                one.unlink()

    def lock(self) -> None:
        """Keeps other processes from training the run until `unlock`, or until this process ends.

        Raises:
            RunDirectoryError: another process trains it.
        """
        try:
            self._lock.acquire()
        except RunIsLockedError as error:
            pid = str(error)
            whom = f"process {pid}: wait for its end, or stop it with `kill {pid}`, upon which it saves" if pid else ""
            raise RunDirectoryError(f"{self.path} is being trained by {whom or 'another process'}") from None

    def unlock(self) -> None:
        """Lets other processes train the run."""
        self._lock.release()

    @classmethod
    def open(cls, path: str | os.PathLike[str], trust: bool = False) -> "RunDirectory":
        """Opens the directory of a run that exists.

        Args:
            path: the directory.
            trust: allow that code saved with the run, its confs and the modules that they name, is run again.

        Raises:
            RunDirectoryError: there is no run in it.
        """
        directory = cls(path, trust)
        if not (directory.path / _RUN_FILE).exists():
            hint = ""
            if directory.path.is_dir() and (directory.path / LOCK_FILE).exists() and directory._is_beginning():
                hint = f". A run was stopped there before it began: start it again with --dir {directory.path}"
            raise RunDirectoryError(f"{directory.path} is not the directory of a run: it has no {_RUN_FILE}{hint}")
        return directory

    @property
    def config(self) -> Path:
        """The saved configuration."""
        return self.path / "config"

    @property
    def agent(self) -> Path:
        """The components of the agent, as a tree."""
        return self.path / "agent.json"

    @property
    def specs(self) -> Path:
        """Of a run without an environment: what its data said about the world."""
        return self.path / "specs.json"

    @property
    def summaries(self) -> Path:
        """Scalars as JSON lines, and TensorBoard events."""
        return self.path / "summaries"

    @property
    def checkpoints(self) -> Path:
        """Checkpoints."""
        return self.path / "checkpoints"

    def policies(self, name: str) -> Path:
        """Checkpoints of policies that a callback keeps under a name, such as "best", to act only."""
        if not name.isidentifier():
            raise RunDirectoryError(f"{name!r} names no policies of a run: give letters, digits and _")
        return self.path / "policies" / name

    @property
    def evaluations(self) -> Path:
        """One JSON line per evaluation."""
        return self.path / "evaluations.jsonl"

    @property
    def matches(self) -> Path:
        """Games against named opponents."""
        return self.path / "matches.json"

    @property
    def videos(self) -> Path:
        """Recorded episodes."""
        return self.path / "videos"

    @property
    def plans(self) -> Path:
        """Pictures of what a planning policy imagines."""
        return self.path / "plans"

    @property
    def pictures(self) -> Path:
        """Pictures of what the agent has learnt."""
        return self.path / "pictures"

    @property
    def code(self) -> Path:
        """Source files that the settings asked to keep."""
        return self.path / "code"

    @property
    def crash(self) -> Path:
        """Parameters as they were when training failed, if the user wanted them."""
        return self.path / "crash"

    @property
    def log(self) -> Path:
        """Warnings, faults and the traceback of a failure."""
        return self.path / "log.txt"

    @property
    def timing(self) -> Path:
        """Where the time goes."""
        return self.path / "timing.json"

    @property
    def report(self) -> Path:
        """The report of the run."""
        return self.path / "report.html"

    def record(self) -> dict[str, Any]:
        """The content of run.json.

        Raises:
            RunDirectoryError: it is damaged.
        """
        try:
            content = read_json(self.path / _RUN_FILE, self.path)
        except (PlainFileError, UnicodeDecodeError) as error:
            raise RunDirectoryError(f"{error}. The checkpoints beside it are not concerned") from error
        if not isinstance(content, dict):
            raise RunDirectoryError(f"{self.path / _RUN_FILE} is damaged: it holds no object")
        return content

    def status(self, record: Mapping[str, Any]) -> str:
        """How a run stands, given its record: running, finished, stopped, failed, or lost, if its process is no more."""
        process = record.get("process")
        if record.get("status") == "running" and isinstance(process, dict) and process.get("host") == platform.node():
            pid = process.get("pid")
            if not isinstance(pid, int) or _process(pid) != process:
                return "lost"
        return str(record.get("status", "unknown"))

    def start(self, **facts: Any) -> None:
        """Writes run.json for a new run: the machine, versions and `facts`."""
        process = _process(os.getpid())
        self._write({"status": "running", "process": process, "started": _now(), **describe_machine(), **facts})

    def adopt(self, record: Mapping[str, Any]) -> None:
        """Writes run.json of a copy, which nobody trains: the lock is given back and removed."""
        self._write(record)
        self.unlock()
        (self.path / LOCK_FILE).unlink(missing_ok=True)

    def mark_running(self) -> None:
        """Says in run.json that this process trains the run, and keeps others from it."""
        self.lock()
        self.update(status="running", process=_process(os.getpid()), stop_reason=None)

    def update(self, **facts: Any) -> None:
        """Adds `facts` to run.json, or replaces them; None removes one."""
        self._write({key: value for key, value in {**self.record(), **facts}.items() if value is not None})

    def note(self, **facts: Any) -> None:
        """What `update` does; where the disk is full it only warns, so that nothing worse is hidden by it."""
        try:
            self.update(**facts)
        except (OSError, RunDirectoryError) as error:
            logger.warning("%s was not brought up to date with %s: %s", self.path / _RUN_FILE, facts, error)

    def add_evaluation(self, result: Mapping[str, Any]) -> None:
        """Appends a line to the evaluations."""
        with self.evaluations.open("a") as file:
            file.write(json.dumps({"time": _now(), **result}) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def read_evaluations(self) -> list[dict[str, Any]]:
        """All evaluations; a line cut short by a crash is left out."""
        if not self.evaluations.exists():
            return []
        results = []
        try:
            text = read_plain(self.evaluations, self.path).decode(errors="replace")
        except PlainFileError as error:
            raise RunDirectoryError(str(error)) from error
        for line in text.splitlines():
            try:
                result = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(result, dict):
                results.append(result)
        return results

    def forget_evaluations_after(self, iterations: int) -> None:
        """Removes evaluations that a run made after the checkpoint that it is resumed from; it makes them again."""
        kept = [result for result in self.read_evaluations() if result.get("iterations", 0) <= iterations]
        if self.evaluations.exists():
            write_atomically(self.evaluations, "".join(json.dumps(result) + "\n" for result in kept))

    def _write(self, content: Mapping[str, Any]) -> None:
        write_atomically(self.path / _RUN_FILE, json.dumps(content, indent=2) + "\n")


def write_atomically(path: Path, text: str) -> None:
    """Replaces the content of a file at once: readers, also after a crash, see the old text or the new one."""
    replace_file(path, text.encode())


def _is_part(name: str) -> bool:
    """Whether a file is what `replace_file` had not finished when its process was killed."""
    return name.startswith(".") and name.endswith(".part")


def _process(pid: int) -> dict[str, Any] | None:
    """What tells a running process from all others that have its number; None if it does not run, or without /proc."""
    try:
        start = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return None
    return {"pid": pid, "start": start, "host": platform.node()}


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
