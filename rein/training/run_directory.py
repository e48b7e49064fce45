"""The directory that a run leaves behind.

run.json          what ran: versions, hardware, command, seed, status
config/           the configuration, from which the run can be rebuilt
agent.json        the components of the agent, as a tree
specs.json        of a run without an environment: what its data said about the world
summaries/        scalars.jsonl and TensorBoard events
checkpoints/      ckpt-N, newest last
evaluations.jsonl one line per evaluation
videos/           recorded episodes
plans/            pictures of what a planning policy imagines
report.html       everything above on one page
"""

import json
import os
import platform
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rein.training.hardware import describe_machine

_RUN_FILE = "run.json"


class RunDirectoryError(ValueError):
    """A directory cannot be used for a run; nothing in it was changed."""


class RunDirectory:
    """Paths and records of one run."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Names the directory; use `create` or `open` to check it."""
        self.path = Path(path)

    @classmethod
    def create(cls, path: str | os.PathLike[str]) -> "RunDirectory":
        """Makes a directory for a new run.

        Raises:
            RunDirectoryError: it exists and is not empty.
        """
        directory = cls(path)
        if (directory.path / _RUN_FILE).exists():
            raise RunDirectoryError(
                f"{directory.path} holds another run: give another directory, or continue that run with "
                f"`rein resume {directory.path}`"
            )
        if directory.path.exists() and (not directory.path.is_dir() or any(directory.path.iterdir())):
            raise RunDirectoryError(f"{directory.path} exists and is not empty: give another directory for the run")
        directory.path.mkdir(parents=True, exist_ok=True)
        return directory

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "RunDirectory":
        """Opens the directory of a run that exists.

        Raises:
            RunDirectoryError: there is no run in it.
        """
        directory = cls(path)
        if not (directory.path / _RUN_FILE).exists():
            raise RunDirectoryError(f"{directory.path} is not the directory of a run: it has no {_RUN_FILE}")
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

    @property
    def evaluations(self) -> Path:
        """One JSON line per evaluation."""
        return self.path / "evaluations.jsonl"

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
    def report(self) -> Path:
        """The report of the run."""
        return self.path / "report.html"

    def record(self) -> dict[str, Any]:
        """The content of run.json."""
        content: dict[str, Any] = json.loads((self.path / _RUN_FILE).read_text())
        return content

    def start(self, **facts: Any) -> None:
        """Writes run.json for a new run: the machine, versions and `facts`."""
        process = _process(os.getpid())
        self._write({"status": "running", "process": process, "started": _now(), **describe_machine(), **facts})

    def mark_running(self) -> None:
        """Says in run.json that this process trains the run."""
        self.update(status="running", process=_process(os.getpid()))

    def check_unused(self) -> None:
        """Raises `RunDirectoryError` if another process on this machine is training the run."""
        record = self.record()
        process = record.get("process")
        if record.get("status") != "running" or process is None or process["pid"] == os.getpid():
            return
        if process == _process(process["pid"]):
            raise RunDirectoryError(
                f"{self.path} is being trained by process {process['pid']}: wait for its end, or stop it with "
                f"`kill {process['pid']}`, upon which it saves"
            )

    def update(self, **facts: Any) -> None:
        """Adds `facts` to run.json, or replaces them; None removes one."""
        self._write({key: value for key, value in {**self.record(), **facts}.items() if value is not None})

    def add_evaluation(self, result: Mapping[str, Any]) -> None:
        """Appends a line to the evaluations."""
        with self.evaluations.open("a") as file:
            file.write(json.dumps({"time": _now(), **result}) + "\n")

    def read_evaluations(self) -> list[dict[str, Any]]:
        """All evaluations; a line cut short by a crash is left out."""
        if not self.evaluations.exists():
            return []
        results = []
        for line in self.evaluations.read_text().splitlines():
            try:
                results.append(json.loads(line))
            except json.JSONDecodeError:
                continue
        return results

    def forget_evaluations_after(self, iterations: int) -> None:
        """Removes evaluations that a run made after the checkpoint that it is resumed from; it makes them again."""
        kept = [result for result in self.read_evaluations() if result.get("iterations", 0) <= iterations]
        if self.evaluations.exists():
            write_atomically(self.evaluations, "".join(json.dumps(result) + "\n" for result in kept))

    def _write(self, content: Mapping[str, Any]) -> None:
        write_atomically(self.path / _RUN_FILE, json.dumps(content, indent=2) + "\n")


def write_atomically(path: Path, text: str) -> None:
    """Replaces the content of a file at once: readers see the old text or the new one."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _process(pid: int) -> dict[str, Any] | None:
    """What tells a running process from all others that have its number; None if it does not run, or without /proc."""
    try:
        start = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return None
    return {"pid": pid, "start": start, "host": platform.node()}


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")
