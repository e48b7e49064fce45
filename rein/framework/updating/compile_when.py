"""When `TrainerConfig.compile="auto"` compiles: once it is likely to pay."""

import os
import shutil
from functools import cache

from rein.runtime.run import current_run_or_none

LEARNT_SECONDS = 3.0
"""Learning that must have been done first: many runs are over before compilation would be."""
LEFT_SECONDS = 90.0
"""Learning that must be left, by the pace so far: compilation takes a processor for up to a minute."""


class CompileWhen:
    """Waits until compilation pays: there is a compiler, and more learning left than it takes.

    Attributes:
        at_once: compile at the first update; for runs that are resumed and were compiled before.
        since: iteration from which on updates are compiled; None: they are not.
    """

    def __init__(self, setting: bool | str) -> None:
        """Waits, if the setting is "auto".

        Args:
            setting: `TrainerConfig.compile`.
        """
        self.setting = setting
        self.at_once = False
        self.since: int | None = None
        self._learnt = 0.0
        self._progress_before: float | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether learning has to be timed."""
        return self.setting == "auto" and not self.at_once

    def learnt(self, seconds: float) -> None:
        """Counts the time of an update."""
        if self._progress_before is None:
            self._progress_before = _progress()
        self._learnt += seconds

    def is_due(self) -> bool:
        """Whether to compile now."""
        if self.setting != "auto":
            return bool(self.setting)
        if self.at_once:
            return True
        if self._learnt < LEARNT_SECONDS or not can_compile():
            return False
        now, before = _progress(), self._progress_before
        if now is None or before is None or now <= before:
            return False
        return self._learnt * (1.0 - now) / (now - before) >= LEFT_SECONDS

    def compiled(self) -> None:
        """Takes note that updates are compiled from now on."""
        run = current_run_or_none()
        if self.since is None:
            self.since = 0 if run is None else run.iterations


@cache
def can_compile() -> bool:
    """Whether a C++ compiler is there, and neither REIN_AUTO_COMPILE=0 nor TORCH_COMPILE_DISABLE=1 forbids it."""
    if os.environ.get("REIN_AUTO_COMPILE", "1") == "0" or os.environ.get("TORCH_COMPILE_DISABLE", "0") != "0":
        return False
    return any(shutil.which(name) is not None for name in (os.environ.get("CXX") or "g++", "g++", "clang++"))


def _progress() -> float | None:
    """Share of the training that is done; None outside of a run."""
    run = current_run_or_none()
    return None if run is None else run.progress
