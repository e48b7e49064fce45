"""How many seconds each section of the program takes."""

from __future__ import annotations

import threading
import time
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

from rein.runtime.active import ACTIVE

_DISABLED: AbstractContextManager[None] = nullcontext()


class TimerStats(NamedTuple):
    """What one section took.

    Attributes:
        seconds: total, nested sections included.
        own_seconds: total without the sections nested in it.
        calls: how often it was entered.
    """

    seconds: float = 0.0
    own_seconds: float = 0.0
    calls: int = 0


class Timers:
    """Adds up seconds by section; nested sections are named by their path, such as `train/learn`.

    Threads nest independently and add to the same totals.
    """

    def __init__(self, enabled: bool = True):
        """Creates empty timers.

        Args:
            enabled: while False, entering a section costs next to nothing and counts nothing.
        """
        self.enabled = enabled
        self._lock = threading.Lock()
        # Seconds, own seconds and calls by path: a section may be entered ten thousand times a second.
        self._totals: dict[str, list[Any]] = {}
        self._local = threading.local()

    def timer(self, name: str) -> AbstractContextManager[None]:
        """Returns a context manager that times its block.

        Args:
            name: of the section; the path of the enclosing sections goes before it.
        """
        return _Section(self, name) if self.enabled else _DISABLED

    def add(self, name: str, seconds: float, calls: int) -> None:
        """Adds a section that was timed by the caller; for loops in which entering a section would cost too much.

        Args:
            name: of the section; the path of the enclosing sections goes before it.
            seconds: in all.
            calls: how often it was entered.
        """
        if not self.enabled:
            return
        sections = self._open_sections()
        if sections:
            sections[-1].nested_seconds += seconds
            name = f"{sections[-1].path}/{name}"
        self._add(name, seconds, seconds, calls)

    def stats(self) -> dict[str, TimerStats]:
        """Returns what each section took so far, by path, in the order of first completion."""
        with self._lock:
            return {path: TimerStats(*total) for path, total in self._totals.items()}

    def reset(self) -> None:
        """Forgets all totals; sections that are open count when they end."""
        with self._lock:
            self._totals.clear()

    def report(self) -> str:
        """Returns a table of the sections, each below the one that encloses it, the longest first."""
        stats = self.stats()
        lines = [f"{'section':<40} {'seconds':>10} {'own':>10} {'calls':>9} {'ms each':>10}"]
        for path in sorted(stats, key=lambda path: _sort_key(path, stats)):
            entry = stats[path]
            label = "  " * path.count("/") + path.rsplit("/", 1)[-1]
            each = 1000 * entry.seconds / entry.calls
            lines.append(
                f"{label:<40} {entry.seconds:>10.3f} {entry.own_seconds:>10.3f} {entry.calls:>9} {each:>10.3f}"
            )
        return "\n".join(lines)

    def _open_sections(self) -> list[_Section]:
        sections: list[_Section] | None = getattr(self._local, "sections", None)
        if sections is None:
            sections = self._local.sections = []
        return sections

    def _add(self, path: str, seconds: float, own_seconds: float, calls: int = 1) -> None:
        with self._lock:
            total = self._totals.get(path)
            if total is None:
                self._totals[path] = [seconds, own_seconds, calls]
                return
            total[0] += seconds
            total[1] += own_seconds
            total[2] += calls

    def __getstate__(self) -> dict[str, bool]:
        return {"enabled": self.enabled}

    def __setstate__(self, state: dict[str, bool]) -> None:
        self.__init__(state["enabled"])  # type: ignore[misc]


class _Section:
    __slots__ = ("_name", "_start", "_timers", "nested_seconds", "path")

    def __init__(self, timers: Timers, name: str):
        self._timers = timers
        self._name = name
        self._start = 0.0
        self.path = name
        self.nested_seconds = 0.0

    def __enter__(self) -> None:
        sections = self._timers._open_sections()
        if sections:
            self.path = f"{sections[-1].path}/{self._name}"
        sections.append(self)
        self._start = time.perf_counter()

    def __exit__(self, *exception: object) -> None:
        seconds = time.perf_counter() - self._start
        sections = self._timers._open_sections()
        sections.pop()
        if sections:
            sections[-1].nested_seconds += seconds
        self._timers._add(self.path, seconds, seconds - self.nested_seconds)


def timer(name: str) -> AbstractContextManager[None]:
    """Returns a context manager that times its block for the current run; nothing without one.

    Args:
        name: of the section; the path of the enclosing sections goes before it.
    """
    activation = ACTIVE.get()
    return _DISABLED if activation is None else activation.run.timers.timer(name)


def add(name: str, seconds: float, calls: int) -> None:
    """Adds a section that was timed by the caller to the current run; nothing without one; see `Timers.add`."""
    activation = ACTIVE.get()
    if activation is not None:
        activation.run.timers.add(name, seconds, calls)


def report() -> str:
    """Returns the current run's table of sections; empty without a run."""
    activation = ACTIVE.get()
    return "" if activation is None else activation.run.timers.report()


def _sort_key(path: str, stats: dict[str, TimerStats]) -> tuple[tuple[float, str], ...]:
    parts = path.split("/")
    prefixes = ["/".join(parts[: i + 1]) for i in range(len(parts))]
    # An enclosing section that is still open has no total yet; it goes before all that have one.
    return tuple((-stats[prefix].seconds if prefix in stats else -float("inf"), prefix) for prefix in prefixes)
