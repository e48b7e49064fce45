"""What all timings of this directory share: steady windows, processes of their own, and how busy the machine was."""

import ctypes
import json
import os
import resource
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

RESULT = "RESULT "
BUSY = 0.15
"""Cores used by other processes above which a measurement is flagged."""


class Window:
    """Steady rate of a counter: opens once it has reached `warm`, then closes `parts` parts of equal length.

    With `settle`, it opens only when two successive stretches of that many seconds agree to 10 %: what is compiled in the
    background, or at an unknown step, is over by then. On a machine that never agrees with itself, it opens after twenty
    such stretches.
    """

    def __init__(
        self, warm: int, seconds: float, parts: int = 3, settle: float = 0.0, on_open: Callable[[], None] | None = None
    ) -> None:
        self._warm, self._part, self._parts, self._settle = warm, seconds / parts, parts, settle
        self._on_open = on_open
        self._probe: tuple[float, int] | None = None
        self._probed, self._num_probes = 0.0, 0
        self._last: tuple[float, int, float] | None = None
        self.opened_after = 0.0
        self._created = time.perf_counter()
        self.rates: list[float] = []
        self.cpu_rates: list[float] = []
        self.seconds = 0.0

    def mark(self, count: int) -> bool:
        """Takes notice of the counter; True when the window is closed."""
        now = time.perf_counter()
        if self._last is None:
            if count >= self._warm and self._is_settled(now, count):
                self._open(count)
            return False
        start, first, cpu = self._last
        if now - start < self._part or count <= first:
            return False
        used = time.process_time()
        self.rates.append((count - first) / (now - start))
        self.cpu_rates.append((count - first) / max(used - cpu, 1e-9))
        self.seconds += now - start
        self._last = (now, count, used)
        return len(self.rates) >= self._parts

    def _is_settled(self, now: float, count: int) -> bool:
        if not self._settle:
            return True
        if self._probe is None:
            self._probe = (now, count)
            return False
        start, first = self._probe
        if now - start < self._settle or count <= first:
            return False
        rate, before = (count - first) / (now - start), self._probed
        self._probe, self._probed = (now, count), rate
        self._num_probes += 1
        return abs(rate - before) < 0.1 * rate or self._num_probes >= 20

    def _open(self, count: int) -> None:
        if self._on_open is not None:
            self._on_open()
        self.opened_after = time.perf_counter() - self._created
        self._last = (time.perf_counter(), count, time.process_time())

    def result(self) -> dict[str, float]:
        """Median rate of the parts, lowest and highest, rate by processor time, and seconds before it opened."""
        if not self.rates:
            raise RuntimeError("the run ended before the window was closed: it was stopped, or has too few steps")
        return {
            "value": statistics.median(self.rates),
            "lo": min(self.rates),
            "hi": max(self.rates),
            "cpu_rate": statistics.median(self.cpu_rates),
            "opened_after": self.opened_after,
        }


def calls_per_second(call: Callable[[], object], seconds: float, warm_calls: int = 3, settle: float = 0.0) -> Window:
    """A closed window over calls of `call`."""
    window, count = Window(warm_calls, seconds, settle=settle), 0
    while not window.mark(count):
        call()
        count += 1
    return window


def emit(metric: str, unit: str, **values: Any) -> None:
    """Prints a result line, which `run_measured` reads."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    record = {"metric": metric, "unit": unit, "rss_mb": round(peak, 1), **values}
    print(RESULT + json.dumps(record), flush=True)


def parse_results(text: str) -> list[dict[str, Any]]:
    """The records in the output of a measurement: lines of JSON, with or without the mark; a `rate` is a `value`."""
    records = []
    for line in text.splitlines():
        if line.startswith((RESULT, "{")):
            record = json.loads(line.removeprefix(RESULT))
            if "rate" in record:
                record["value"] = record["rate"]
            if "value" in record:
                records.append(record)
    return records


_SET_CHILD_SUBREAPER = 36


class Measured(NamedTuple):
    """What a process printed, and what went on meanwhile."""

    records: list[dict[str, Any]]
    wall: float
    """Seconds that the process took."""
    other_cpu: float
    """Cores that other processes used meanwhile, on average."""
    error: str = ""


def run_measured(
    command: Sequence[str],
    threads: int | None,
    timeout: float,
    environment: dict[str, str] | None = None,
    is_pinned: bool = True,
) -> Measured:
    """Runs a measurement in a process of its own.

    Args:
        command: what prints results.
        threads: it may use; None says nothing to it, as where a user starts it.
        timeout: seconds.
        environment: variables that are changed for it.
        is_pinned: on as many cores as it has threads; otherwise it may use all that there are.
    """
    variables = {**os.environ, **(environment or {}), "PYTHONWARNINGS": "ignore", "TF_CPP_MIN_LOG_LEVEL": "3"}
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        variables.pop(name, None)
        if threads is not None:
            variables[name] = str(threads)
    if threads is not None and is_pinned:
        cores = sorted(os.sched_getaffinity(0))[-threads:]
        command = ["taskset", "-c", ",".join(map(str, cores)), *command]
    _adopt_orphans()
    busy, own, start = busy_seconds(), _children_seconds(), time.perf_counter()
    try:
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=timeout, check=False)
        output, errors, code = done.stdout, done.stderr, done.returncode
    except subprocess.TimeoutExpired:
        output, errors, code = "", f"took more than {timeout:.0f} s", -1
    wall = time.perf_counter() - start
    _await_orphans()
    other = (busy_seconds() - busy - (_children_seconds() - own)) / wall
    records = parse_results(output)
    error = ""
    if code != 0 or not records:
        error = (errors.strip().splitlines() or [f"no result, exit code {code}"])[-1][:300]
    return Measured(records, wall, max(0.0, other), error)


def busy_seconds() -> float:
    """Processor seconds spent by everything on this machine since it started."""
    with open("/proc/stat") as file:
        fields = [int(field) for field in file.readline().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def _adopt_orphans() -> None:
    """Makes this process the parent of what its children leave behind, so that it is told what that has used."""
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _await_orphans(patience: float = 0.5) -> None:
    """Takes note of children that have ended; waits for some time for those that are about to."""
    end = time.monotonic() + patience
    while True:
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not ended:
            if time.monotonic() > end:
                return
            time.sleep(0.01)


def _children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
