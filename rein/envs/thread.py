"""Worlds in threads of this process: for evaluation beside training, and for worlds that release Python's lock.

Each thread makes, steps, renders and closes its own worlds, so that graphics contexts stay where they were made.
"""

import queue
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rein.envs.batch import batch_seeds, probe_spaces
from rein.envs.environment import BufferedEnvironment, stacked_frames
from rein.envs.faults import EnvironmentFaultError, Fault, FaultPolicy
from rein.envs.process import worker_rows
from rein.envs.rows import SINGLE_WORLDS, EnvRows, lost_states
from rein.envs.single import EnvFactory

__all__ = ["ThreadEnvironment"]


class _RowsThread:
    """A thread that owns the worlds of some rows and does what it is told, in order."""

    def __init__(self, make_rows: Callable[[NDArray[np.int64]], EnvRows], start: int) -> None:
        self.start = start
        self.progress: NDArray[np.int64] = np.zeros(1, dtype=np.int64)
        self._make_rows = make_rows
        self._orders: queue.SimpleQueue[Callable[[EnvRows], Any] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"rein-envs-{start}")
        self._thread.start()

    def _run(self) -> None:
        try:
            rows = self._make_rows(self.progress)
        except Exception as error:
            self._answers.put((None, error))
            return
        self._answers.put((None, None))
        while (order := self._orders.get()) is not None:
            try:
                answer = order(rows)
            except Exception as error:
                self._answers.put((None, error))
            else:
                self._answers.put((answer, None))
        rows.close()

    def order(self, function: Callable[[EnvRows], Any]) -> None:
        """Lets the thread call `function` with its worlds."""
        self._orders.put(function)

    def answer(self, timeout: float) -> Any:
        """What the last order gave; raises what it raised."""
        answer, error = self._answers.get(timeout=timeout)
        if error is not None:
            raise error
        return answer

    def stop(self) -> None:
        """Lets the thread close its worlds and end."""
        self._orders.put(None)

    def join(self, timeout: float) -> None:
        """Waits for the end of the thread."""
        self._thread.join(timeout)


class ThreadEnvironment(BufferedEnvironment):
    """B single worlds in threads of this process.

    A thread cannot be stopped from outside: a world that hangs ends the run with an `EnvironmentFaultError`. Use the process
    backend where worlds may hang or crash.
    """

    def __init__(
        self,
        factory: EnvFactory,
        batch_size: int,
        seed: int | None = None,
        fault_policy: FaultPolicy | None = None,
        num_slots: int = 2,
        num_workers: int | None = None,
    ) -> None:
        """Starts the threads and waits until all worlds are made.

        Args:
            factory: makes one world.
            batch_size: number of worlds.
            seed: of the whole batch; None for a random one.
            fault_policy: what to endure.
            num_slots: number of buffers that steps alternate between.
            num_workers: number of threads; None for one per usable core, at most one per world.
        """
        self._closed = True
        spaces = probe_spaces(factory)
        super().__init__(spaces, batch_size, num_slots=num_slots, fault_policy=fault_policy)
        seeds = batch_seeds(seed, batch_size)
        layout, log = self._layout, self._log
        self._ticks = 0
        self._threads: list[_RowsThread] = []
        self._bounds = worker_rows(batch_size, num_workers)

        for start, stop in self._bounds:
            slots = [slot.rows(start, stop) for slot in self._slots]

            def make(progress: NDArray[np.int64], slots: Any = slots, start: int = start, stop: int = stop) -> EnvRows:
                return EnvRows(factory, spaces, layout, slots, start, seeds[start:stop], log, progress)

            self._threads.append(_RowsThread(make, start))
        for thread in self._threads:
            thread.answer(log.policy.start_timeout)

    def _reset_into(self, index: int) -> None:
        self._all(lambda rows: rows.reset(index))

    def _step_into(self, index: int) -> None:
        self._ticks += 1
        self._all(lambda rows: rows.step(index))

    def _all(self, function: Callable[[EnvRows], Any]) -> list[Any]:
        for thread in self._threads:
            thread.order(function)
        answers = []
        errors: list[Exception] = []
        for thread in self._threads:
            try:
                answers.append(thread.answer(self._log.policy.step_timeout))
            except queue.Empty as error:
                self._closed = True
                row = thread.start + int(thread.progress[0])
                message = f"no answer within {self._log.policy.step_timeout:g} s; a thread cannot be stopped"
                raise EnvironmentFaultError(
                    Fault(row, self._ticks, "hung", message), "Use backend='process'."
                ) from error
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return answers

    @property
    def _form(self) -> str:
        return SINGLE_WORLDS

    def _cut_worlds(self, reason: str) -> dict[int, str]:
        return self._set_worlds(lost_states(self._slots[self._index], reason))

    def _get_worlds(self) -> Any:
        return [state for part in self._all(lambda rows: rows.get_state()) for state in part]

    def _set_worlds(self, worlds: Any) -> dict[int, str]:
        stops = dict(self._bounds)
        index = self._index
        cuts = self._all(lambda rows: rows.set_state(worlds[rows.first_row : stops[rows.first_row]], index))
        return {row: reason for cut in cuts for row, reason in cut.items()}

    def seed(self, seed: int) -> None:
        """Seeds all worlds, each differently, from their next `reset()` on."""
        seeds = batch_seeds(seed, self._batch_size)
        stops = dict(self._bounds)
        self._all(lambda rows: rows.seed(seeds[rows.first_row : stops[rows.first_row]]))

    def render(self) -> NDArray[np.uint8]:
        """One frame of each world, [B, H, W, 3]."""
        frames = self._all(lambda rows: rows.render())
        return stacked_frames([frame for part in frames for frame in part], "the environment")

    def _close(self) -> None:
        for thread in getattr(self, "_threads", []):
            thread.stop()
        for thread in getattr(self, "_threads", []):
            thread.join(1.0)
