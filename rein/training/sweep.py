"""Sweeps: many runs of one conf with varied settings, several processes at a time, stopped and continued at will.

sweep.json      the plan; the same directory always continues the same sweep
journal.jsonl   what has happened, appended to
runs/           a run directory for each trial and seed
logs/           what each process printed
results.json    trials with their scores, best first
"""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple, Self

import numpy as np

from rein.config import parse_overrides
from rein.training.run_directory import RunDirectory, write_atomically
from rein.training.search_space import override_text
from rein.training.signals import StopRequest
from rein.training.statistics_of_runs import bootstrap_interval, final_score
from rein.training.sweep_plan import Plan, check_plan, make_sampler

_POLL_SECONDS = 0.2
_STOP_SECONDS = 60.0


class SweepError(ValueError):
    """A sweep directory cannot be used; nothing in it was changed."""


class TrialResult(NamedTuple):
    """A point and how it did."""

    trial: int
    overrides: list[str]
    scores: dict[int, float]
    """By seed; seeds that failed are missing."""
    failed: int

    @property
    def mean(self) -> float | None:
        """Mean score over the seeds."""
        return float(np.mean(list(self.scores.values()))) if self.scores else None

    def to_json(self) -> dict[str, Any]:
        """Everything in plain values."""
        values = np.array(list(self.scores.values()))
        low, high = bootstrap_interval(values) if len(values) > 1 else (None, None)
        interval = None if low is None else [float(low), float(high)]  # type: ignore[arg-type]
        scores = {str(seed): score for seed, score in self.scores.items()}
        return {**self._asdict(), "scores": scores, "mean": self.mean, "ci95": interval}


class Commands(NamedTuple):
    """How the processes of a sweep are started."""

    train: Callable[[list[str], int, Path], list[str]]
    """Called with overrides, seed and run directory; returns a command line."""
    resume: Callable[[Path], list[str]]
    """Called with the directory of a run that was begun."""


class _Job(NamedTuple):
    trial: int
    seed: int
    directory: Path
    process: subprocess.Popen[bytes]
    log: Path


class Sweep:
    """A sweep in its directory; a context manager that locks it."""

    def __init__(
        self, directory: Path, plan: Plan, commands: Commands, jobs: int, output: IO[str] | None = None
    ) -> None:
        """Opens the directory, or makes it.

        Args:
            directory: of this sweep and no other.
            plan: must be the same each time.
            commands: how to start runs.
            jobs: processes at a time.
            output: receives a line for each finished run.
        """
        check_plan(plan)
        if jobs < 1:
            raise ValueError(f"--jobs {jobs} is impossible: give at least 1")
        self.directory = directory
        self.plan = plan
        self._commands = commands
        self._jobs = jobs
        self._output = output
        self._points: dict[int, list[str]] = {}
        self._scores: dict[tuple[int, int], float] = {}
        self._failures: dict[tuple[int, int], str] = {}
        self._told: set[int] = set()
        self._lock = -1
        self._sampler = make_sampler(plan)

    def __enter__(self) -> Self:
        described = self.plan.to_json()
        plan_file = self.directory / "sweep.json"
        if plan_file.exists():
            if json.loads(plan_file.read_text()) != json.loads(json.dumps(described)):
                raise SweepError(
                    f"{self.directory} holds a sweep with another plan ({plan_file}): choose another --dir"
                )
        elif self.directory.exists() and any(self.directory.iterdir()):
            raise SweepError(f"{self.directory} exists and holds no sweep: choose another --dir")
        self.directory.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise SweepError(
                f"{self.directory} is in use: a sweep, or a run that it started, has not ended yet"
            ) from None
        write_atomically(plan_file, json.dumps(described, indent=2) + "\n")
        for folder in ("runs", "logs"):
            (self.directory / folder).mkdir(exist_ok=True)
        self._replay()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._lock)

    # Running.

    def run(self) -> str | None:
        """Runs what is not done yet; returns the name of the signal that stopped it, None if all is done."""
        running: list[_Job] = []
        waiting = self._unfinished()
        trial = max(self._points, default=-1) + 1
        with StopRequest() as stop:
            try:
                while not stop.is_set:
                    running = [job for job in running if not self._collect(job)]
                    self._tell_finished()
                    while len(running) < self._jobs:
                        if not waiting:
                            waiting = self._begin(trial)
                            trial += 1
                        if not waiting:
                            break
                        job = self._start(*waiting.pop(0))
                        running += [] if job is None else [job]
                    if not running:
                        break
                    time.sleep(_POLL_SECONDS)
            finally:
                self._stop(running)
        self._write_results()
        return stop.reason

    def results(self) -> list[TrialResult]:
        """The trials so far, best first, those without a score last."""
        results = []
        for trial, overrides in self._points.items():
            scores = {seed: self._scores[trial, seed] for seed in self.plan.seeds if (trial, seed) in self._scores}
            failed = sum((trial, seed) in self._failures for seed in self.plan.seeds)
            results.append(TrialResult(trial, overrides, scores, failed))
        return sorted(results, key=lambda one: -np.inf if one.mean is None else one.mean, reverse=True)

    @property
    def failures(self) -> list[str]:
        """What went wrong, a line for each failed run."""
        return [f"trial {trial} seed {seed}: {why}" for (trial, seed), why in sorted(self._failures.items())]

    def first_overrides(self) -> list[str]:
        """Overrides of some point of the sweep, to check that its settings exist."""
        rng = np.random.default_rng(self.plan.sampler_seed)
        return [override_text(one.name, one.draw(rng)) for one in self.plan.dimensions]

    def _begin(self, trial: int) -> list[tuple[int, int]]:
        """Chooses the point of a new trial; returns its runs, none if the sweep has no more trials."""
        point = self._sampler.point(trial)
        if point is None:
            return []
        overrides = [override_text(name, value) for name, value in point.items()]
        self._points[trial] = overrides
        self._note(event="trial", trial=trial, overrides=overrides)
        return [(trial, seed) for seed in self.plan.seeds]

    def _start(self, trial: int, seed: int) -> _Job | None:
        """Starts a run, or goes on with it; None if it had finished without our noticing."""
        directory, is_begun = self._run_directory(trial, seed)
        if is_begun and _is_finished(directory):
            self._take_down(trial, seed, directory, "")
            return None
        if is_begun:
            command = self._commands.resume(directory)
        else:
            command = self._commands.train([*self.plan.overrides, *self._points[trial]], seed, directory)
        log = self.directory / "logs" / f"{directory.name}.log"
        with log.open("ab") as file:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
                pass_fds=(self._lock,),  # The directory stays locked until the last of them has ended.
                preexec_fn=_die_with_parent if sys.platform == "linux" else None,
                start_new_session=True,
            )
        return _Job(trial, seed, directory, process, log)

    def _run_directory(self, trial: int, seed: int) -> tuple[Path, bool]:
        """Where to run, and whether a run has begun there."""
        stem = self.directory / "runs" / f"trial{trial:04}-seed{seed}"
        attempt, path = 1, stem
        while True:
            if (path / "run.json").exists():
                return path, True
            if not path.exists() or not any(path.iterdir()):
                return path, False
            attempt += 1
            path = stem.with_name(f"{stem.name}-{attempt}")

    def _collect(self, job: _Job) -> bool:
        """Whether the process has ended; takes down its result."""
        code = job.process.poll()
        if code is None:
            return False
        has_finished = code == 0 and _is_finished(job.directory)
        why = "" if has_finished else f"ended with code {code}: {_last_line(job.log)}"
        self._take_down(job.trial, job.seed, job.directory, why)
        return True

    def _take_down(self, trial: int, seed: int, directory: Path, why: str) -> None:
        """Notes the score of a run, or why it has none."""
        score = None if why else final_score(RunDirectory.open(directory))
        if score is not None:
            self._scores[trial, seed] = score
            self._failures.pop((trial, seed), None)
            self._note(event="finished", trial=trial, seed=seed, score=score, directory=directory.name)
            self._say(f"trial {trial} seed {seed}: {score:.4g}  {' '.join(self._points[trial])}")
        else:
            why = why or "it finished without a return: let it evaluate, or train longer"
            self._failures[trial, seed] = why
            self._note(event="failed", trial=trial, seed=seed, why=why)
            self._say(f"trial {trial} seed {seed} failed: {why}")
        self._write_results()

    def _tell_finished(self) -> None:
        for trial in self._points:
            ended = all((trial, seed) in self._scores or (trial, seed) in self._failures for seed in self.plan.seeds)
            if ended and trial not in self._told:
                self._told.add(trial)
                scores = [self._scores[trial, seed] for seed in self.plan.seeds if (trial, seed) in self._scores]
                self._sampler.tell(trial, float(np.mean(scores)) if scores else None)

    def _stop(self, running: Sequence[_Job]) -> None:
        """Asks the processes to save and stop, and waits for them."""
        for job in running:
            if job.process.poll() is None:
                job.process.terminate()
        deadline = time.monotonic() + _STOP_SECONDS
        for job in running:
            try:
                job.process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                job.process.kill()
                job.process.wait()

    # The journal.

    def _note(self, **event: Any) -> None:
        line = json.dumps({**event, "time": time.strftime("%Y-%m-%dT%H:%M:%S%z")}) + "\n"
        with (self.directory / "journal.jsonl").open("a") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())

    def _replay(self) -> None:
        """Takes up what the journal tells; a line cut short by a crash is left out."""
        journal = self.directory / "journal.jsonl"
        text = journal.read_text() if journal.exists() else ""
        if text and not text.endswith("\n"):
            with journal.open("a") as file:
                file.write("\n")
        for line in text.splitlines():
            try:
                event = json.loads(line)
            except json.JSONDecodeError:
                continue
            if event["event"] == "trial":
                self._points[event["trial"]] = event["overrides"]
            elif event["event"] == "finished":
                self._scores[event["trial"], event["seed"]] = event["score"]
        for trial, overrides in sorted(self._points.items()):
            self._sampler.adopt(trial, parse_overrides(overrides))
        self._tell_finished()

    def _unfinished(self) -> list[tuple[int, int]]:
        return [
            (trial, seed)
            for trial in sorted(self._points)
            for seed in self.plan.seeds
            if (trial, seed) not in self._scores
        ]

    def _write_results(self) -> None:
        content = [result.to_json() for result in self.results()]
        write_atomically(self.directory / "results.json", json.dumps(content, indent=2) + "\n")

    def _say(self, line: str) -> None:
        if self._output is not None:
            print(line, file=self._output, flush=True)


def _is_finished(directory: Path) -> bool:
    return (directory / "run.json").exists() and RunDirectory.open(directory).record().get("status") == "finished"


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return lines[-1] if lines else "it printed nothing"


def _die_with_parent() -> None:
    """Asks Linux to stop this process, gracefully, when the one that started it dies."""
    import ctypes

    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)
