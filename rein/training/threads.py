"""`ThreadChoice`: how many threads one torch operation uses, found by measuring the run itself.

Two threads make the update of a large network faster, and ruin that of a small one, or any while another process wants
the same cores: threads that wait for one that got no core spin. No fixed number is right. So a run tries numbers on its
own iterations, once it learns, and keeps the best; it looks again when its iterations become slower, or when cores that
were taken are idle again. Each try takes a second or two of training, which goes on meanwhile.

Sums in another order round differently. Torch's products have the same bits with one thread and with more in all sizes
that were tried, but nothing promises it: a run that must be equal to the last bit is given its number of threads.
"""

import logging
import math
import os
import time
from collections.abc import Callable

import torch

from rein.runtime.cores import idle_seconds, usable_cores
from rein.runtime.device import fixed_torch_threads

logger = logging.getLogger(__name__)

SETTLING = 3
"""Learning iterations before the first try: compilation, first summaries, growing memory."""
ROUNDS = 2
"""Windows of each number in a try, in turns."""
WINDOW_SECONDS = 0.35
WINDOW_ITERATIONS = 4
WATCH_SECONDS = 1.0
GAIN = 1.05
"""More threads must be this much faster."""
FALL = 1.3
"""An iteration that takes this much longer than at the last try calls for another."""
HOPELESS = 3.0
"""A number of threads whose first iteration takes this much longer than with fewer is not tried further."""
FREE = 0.7
"""Cores that must be idle for another try where cores were taken before."""
PAUSE, LONGEST_PAUSE = 5.0, 300.0
"""Seconds between two tries; they double while tries change nothing."""


def threads_given(setting: int | str) -> int | None:
    """The number of threads that somebody has fixed; None: it may be chosen.

    Args:
        setting: `TrainerConfig.num_threads`; with "auto", `set_torch_threads` and OMP_NUM_THREADS count.
    """
    if setting != "auto":
        return int(setting)
    given = os.environ.get("OMP_NUM_THREADS", "")
    return fixed_torch_threads() or (int(given) if given.isdigit() and int(given) > 0 else None)


def choose_threads(setting: int | str, is_exact: bool) -> "ThreadChoice | None":
    """What chooses the number of threads of a run; None if it is fixed, and then it is in force.

    Args:
        setting: `TrainerConfig.num_threads`.
        is_exact: the number must not change, since another one may round differently.
    """
    given = threads_given(setting)
    if given is not None:
        torch.set_num_threads(given)
    return ThreadChoice() if given is None and not is_exact else None


def threads_record(choice: "ThreadChoice | None") -> int | list[tuple[int, int]]:
    """For run.json: the number of threads, or (iteration, threads) of every choice."""
    return torch.get_num_threads() if choice is None else choice.changes


class _Window:
    """Iterations that were made with one number of threads."""

    def __init__(self, idle: Callable[[], float | None], now: float) -> None:
        self.durations: list[float] = []
        self._idle, self._idle_before, self._opened = idle, idle(), now

    def seconds(self, now: float) -> float:
        """Since it was opened."""
        return now - self._opened

    def typical(self) -> float:
        """Seconds of an iteration."""
        return typical(self.durations)

    def free_cores(self, now: float) -> float | None:
        """Cores that were idle meanwhile, on average; None where nothing tells."""
        idle = self._idle()
        if idle is None or self._idle_before is None:
            return None
        return (idle - self._idle_before) / max(self.seconds(now), 1e-9)


class _Try:
    """A number of threads and the next larger one in turns; if that is faster, the same one level up."""

    def __init__(self, before: int) -> None:
        self.before = before
        self.level = 0
        self.gain = 1.0
        self.start_level()

    def start_level(self) -> None:
        """Forgets what was measured a level below."""
        self.windows = 0
        self._durations: tuple[list[float], list[float]] = ([], [])

    @property
    def is_high(self) -> bool:
        """Whether it is the turn of the larger number."""
        return self.windows % 2 == 1

    def add(self, durations: list[float]) -> None:
        """Takes a window, after which it is the other number's turn."""
        self._durations[self.is_high].extend(durations)
        self.windows += 1

    def typical(self, low: bool) -> float:
        """Seconds of an iteration with the smaller number, or the larger."""
        return typical(self._durations[not low])


def typical(durations: list[float]) -> float:
    """Seconds of an ordinary iteration: the mean of all but the slowest fifth, where summaries and pauses of others are."""
    kept = sorted(durations)[: max(1, math.ceil(0.8 * len(durations)))]
    return sum(kept) / len(kept)


class ThreadChoice:
    """Chooses the number of threads while a run goes on.

    Attributes:
        threads: in force.
        changes: (iteration, threads) of every choice, for the record.
    """

    def __init__(
        self,
        cores: int | None = None,
        start: int = 1,
        set_threads: Callable[[int], None] = torch.set_num_threads,
        idle: Callable[[], float | None] = idle_seconds,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Starts with `start` threads.

        Args:
            cores: the most threads; None counts the usable cores.
            start: threads before the first try.
            set_threads: puts a number in force.
            idle: seconds that cores were idle, summed, or None.
            clock: seconds.
        """
        cores = usable_cores() if cores is None else cores
        self._numbers = [2**power for power in range(cores.bit_length()) if 2**power <= cores]
        if self._numbers[-1] != cores:
            self._numbers.append(cores)
        self._set, self._idle, self._clock = set_threads, idle, clock
        self._learning_iterations = 0
        self._try: _Try | None = None
        self._reference: float | None = None
        self._taken = False
        self._pause = PAUSE
        self._tried_at = clock()
        self.changes: list[tuple[int, int]] = []
        self.threads = min(start, cores)
        set_threads(self.threads)
        self._window = _Window(self._idle, clock())

    def see(self, iteration: int, seconds: float, trained: int) -> None:
        """Takes note of an iteration, and perhaps changes the number of threads for the next.

        Args:
            iteration: its number, for the record.
            seconds: it took.
            trained: samples that it learnt from; before the first there is nothing to choose for.
        """
        if len(self._numbers) == 1 or (not trained and self._try is None):
            return
        self._learning_iterations += 1
        if self._learning_iterations <= SETTLING:
            return
        self._window.durations.append(seconds)
        if self._try is not None:
            self._go_on(iteration, self._try)
        elif self._reference is None:
            self._begin(iteration)
        elif self._window.seconds(self._clock()) >= WATCH_SECONDS:
            self._watch(iteration)

    def _watch(self, iteration: int) -> None:
        window, now = self._window, self._clock()
        assert self._reference is not None
        slower = self.threads > 1 and window.typical() > FALL * self._reference
        free = window.free_cores(now)
        # Where nothing tells which cores are idle, time alone calls for another try.
        room = self._taken and self.threads < self._numbers[-1] and (free is None or free >= FREE)
        self._window = _Window(self._idle, now)
        if (slower or room) and now - self._tried_at >= self._pause:
            self._begin(iteration)

    # A try.

    def _begin(self, iteration: int) -> None:
        self._try = _Try(before=self.threads)
        self._taken = False
        self._use(iteration, self._numbers[0])

    def _go_on(self, iteration: int, attempt: "_Try") -> None:
        window, now = self._window, self._clock()
        hopeless = attempt.is_high and window.durations[-1] > HOPELESS * attempt.typical(low=True)
        is_full = len(window.durations) >= WINDOW_ITERATIONS and window.seconds(now) >= WINDOW_SECONDS
        if not hopeless and not is_full:
            return
        if not attempt.is_high and attempt.level == 0:
            free = window.free_cores(now)
            # One thread leaves the others idle, if nobody else wants them; unknown counts as taken.
            self._taken = self._taken or free is None or free < self._numbers[-1] - 2 + FREE
        attempt.add(window.durations)
        if not hopeless and attempt.windows < 2 * ROUNDS:
            self._use(iteration, self._numbers[attempt.level + attempt.is_high])
            return
        self._judge(iteration, attempt, hopeless)

    def _judge(self, iteration: int, attempt: "_Try", hopeless: bool) -> None:
        low, high = attempt.typical(low=True), attempt.typical(low=False)
        if not hopeless and low > GAIN * high:
            attempt.gain *= low / high
            attempt.level += 1
            if attempt.level + 1 < len(self._numbers):
                attempt.start_level()
                self._use(iteration, self._numbers[attempt.level])
                return
            low = high
        self._end(iteration, attempt, low)

    def _end(self, iteration: int, attempt: "_Try", reference: float) -> None:
        self._try = None
        self._reference = reference
        self._tried_at = self._clock()
        self._use(iteration, self._numbers[attempt.level])
        first = not self.changes
        if first or self.threads != attempt.before:
            self.changes.append((iteration, self.threads))
            said = f"{attempt.gain:.2f} x as fast as 1" if self.threads > 1 else "more are not faster"
            logger.info("threads: %d of %d, %s, since iteration %d", self.threads, self._numbers[-1], said, iteration)
            self._pause = PAUSE
        else:
            self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def _use(self, iteration: int, threads: int) -> None:
        if threads != self.threads:
            self._set(threads)
        self.threads = threads
        self._window = _Window(self._idle, self._clock())
