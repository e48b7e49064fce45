"""Runs that are trained side by side, each in a process of its own with one torch thread.

What is interrupted goes on where it was: finished runs are kept, unfinished ones resume from their checkpoints.
"""

import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from rein.training.run_directory import RunDirectory
from rein.zoo.processes import command_line, one_thread


class BudgetExceededError(TimeoutError):
    """The time ran out; what was trained is kept, and the same command again goes on from there."""


class Job(NamedTuple):
    """A run."""

    title: str
    """What it is called in messages, "seed 0 of ppo_cartpole"."""
    path: Path
    """Its directory; the output of its process goes to a file beside it."""
    words: Sequence[str]
    """Arguments of `rein train` but for the directory and the threads."""
    again: str
    """The command that goes on with it."""

    @property
    def log(self) -> Path:
        """What its process said."""
        return self.path.with_name(f"{self.path.name}.log")

    def start(self) -> "subprocess.Popen[bytes] | None":
        """Starts or resumes it; None if it is finished."""
        if (self.path / "run.json").exists():
            if RunDirectory.open(self.path).record()["status"] == "finished":
                return None
            words = ["resume", str(self.path)]
        else:
            words = ["train", *self.words, "--dir", str(self.path)]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            return subprocess.Popen(command_line(*words, "--threads", "1"), stdout=log, stderr=log, env=one_thread())

    def check_ended_well(self, code: int) -> None:
        """Raises `RuntimeError` if its process failed, or was stopped before its end."""
        if code != 0:
            raise RuntimeError(f"training {self.title} failed: {last_line(self.log)} (see {self.log})")
        if RunDirectory.open(self.path).record()["status"] != "finished":
            raise RuntimeError(
                f"training {self.title} was stopped before its end; `{self.again}` again goes on from its checkpoint"
            )


def train_side_by_side(
    jobs: Sequence[Job], at_once: int, budget_seconds: float = float("inf"), say: Callable[[str], None] = print
) -> None:
    """Trains all of them to their ends.

    Args:
        jobs: the runs.
        at_once: processes at a time.
        budget_seconds: after which running ones are told to save and stop.
        say: told what begins.

    Raises:
        BudgetExceededError: the time ran out.
        RuntimeError: one failed, or was stopped; the others are told to save and stop.
    """
    deadline = time.monotonic() + budget_seconds
    waiting, running = list(jobs), list[tuple[Job, "subprocess.Popen[bytes]"]]()
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                job = waiting.pop(0)
                process = job.start()
                if process is not None:
                    running.append((job, process))
                    say(f"training {job.title}")
            for job, process in list(running):
                if process.poll() is not None:
                    running.remove((job, process))
                    job.check_ended_well(process.returncode)
            if time.monotonic() > deadline:
                again = jobs[0].again
                raise BudgetExceededError(f"the time is over; `{again}` again goes on from its checkpoints")
            time.sleep(0.2)
    finally:
        _stop([process for _, process in running])


def _stop(processes: "Sequence[subprocess.Popen[bytes]]") -> None:
    """Lets runs save and stop."""
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()


def last_line(log: Path) -> str:
    """What a process said last: why it failed, if it could say so."""
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1].removeprefix("rein: error: ").strip() if lines else "it said nothing"
