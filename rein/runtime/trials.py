"""Trials: which of two ways is faster on this machine, for ways whose results differ in the last bits.

A run tries once, keeps what it found, in its checkpoints too, and tells its workers, so that what it computes does not depend
on how busy the machine was when it was resumed. A variable of the environment decides instead: 0 for never, 1 for wherever
it is possible.
"""

import os
import time
from collections.abc import Callable, Sequence

from rein.runtime.run import current_run_or_none


def kept(name: str, variable: str, found: Callable[[str], bool]) -> bool:
    """The outcome of a trial: what the current run has found before, or else what is found now.

    Args:
        name: of the trial.
        variable: of the environment, which may have a wish: "0" or "1".
        found: makes the trial, given the wish or ""; with "1" it only says whether the way is possible.
    """
    run = current_run_or_none()
    wish = os.environ.get(variable, "")
    if run is None or wish in ("0", "1"):
        return found(wish)
    if name not in run.trials:
        run.trials[name] = found(wish)
    return run.trials[name] and found("1")


def processor_time_ratio(ways: Sequence[Callable[[], object]], tries: int = 6) -> float:
    """Processor time of the first of two ways in that of the second; the least of some tries each, in turns."""
    least = [float("inf"), float("inf")]
    for _ in range(tries):
        for which, way in enumerate(ways):
            start = time.thread_time()
            way()
            least[which] = min(least[which], time.thread_time() - start)
    return least[0] / least[1]
