"""Worlds in worker processes: for costly ones, and for ones that may crash or hang.

Each worker steps several worlds. Actions and observations lie in one block of shared memory, and semaphores wake the two
sides. A worker that dies or hangs is replaced; the episodes of its worlds end as truncated.
"""

import itertools
import logging
import multiprocessing
import os
import time
import weakref
from collections.abc import Sequence
from multiprocessing.context import BaseContext
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rein.config.sending import configs_to_send
from rein.envs import process_worker as worker_side
from rein.envs.batch import batch_seeds, probe_spaces
from rein.envs.environment import BufferedEnvironment, stacked_frames
from rein.envs.faults import EnvironmentFaultError, Fault, FaultPolicy
from rein.envs.process_worker import WorkerTask, run_worker, shared_array
from rein.envs.rows import SINGLE_WORLDS, lost_states
from rein.envs.shared_block import BatchSpaces, BlockLayout
from rein.envs.single import EnvFactory, row_seed
from rein.runtime.cores import usable_cores
from rein.runtime.processes.sending import pack
from rein.runtime.processes.starting import start_context

__all__ = ["ProcessEnvironment"]

logger = logging.getLogger("rein.envs")

_LIVENESS_SECONDS = 0.05
_CLOSE_SECONDS = 3.0


class WorkerLostError(Exception):
    """A worker died or did not answer in time."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


class Worker:
    """The parent's handle of one worker process."""

    def __init__(self, context: BaseContext, task: dict[str, Any]) -> None:
        """Starts the process; `task` holds the fields of `WorkerTask` that do not concern communication."""
        self.start, self.stop = task["start"], task["stop"]
        self._control_memory = multiprocessing.RawArray("q", worker_side.CONTROL_SIZE)
        self.control: NDArray[np.int64] = shared_array(self._control_memory, np.int64)
        self.control[worker_side.PROGRESS] = worker_side.IDLE
        self._go, self._done = context.Semaphore(0), context.Semaphore(0)
        self.pipe, other_end = context.Pipe()
        full_task = WorkerTask(
            **task,
            control=self._control_memory,
            go=self._go,
            done=self._done,
            pipe=other_end,
            parent_pid=os.getpid(),
        )
        self.process = context.Process(  # type: ignore[attr-defined]
            target=run_worker, args=(full_task,), daemon=True, name=f"rein-envs-{self.start}-{self.stop - 1}"
        )
        self.process.start()
        other_end.close()
        self._expecting = True  # The first answer says that the worlds are made.

    def send(self, command: int, index: int = 0, previous: int = 0) -> None:
        """Gives a command; an answer that nobody waited for must have been taken by `wait` before."""
        self.control[worker_side.COMMAND] = command
        self.control[worker_side.INDEX] = index
        self.control[worker_side.PREVIOUS] = previous
        self._expecting = True
        self._go.release()

    def wait(self, timeout: float) -> list[Any]:
        """The messages that come with the answer to the last command, usually none."""
        if not self._expecting:
            return []
        if not self._done.acquire(True, _LIVENESS_SECONDS):
            self._wait_long(timeout)
        self._expecting = False
        count = self.control[worker_side.MESSAGES]
        return [self._receive(timeout) for _ in range(count)] if count else []

    def _wait_long(self, timeout: float) -> None:
        deadline = time.monotonic() + timeout - _LIVENESS_SECONDS
        while True:
            alive = self.process.is_alive()
            if self._done.acquire(True, _LIVENESS_SECONDS if alive else 0):
                return
            if not alive:
                raise WorkerLostError("died", self._how_it_died())
            if time.monotonic() > deadline:
                raise WorkerLostError("hung", f"no answer within {timeout:g} s (step_timeout)")

    def _receive(self, timeout: float) -> Any:
        try:
            if not self.pipe.poll(timeout):
                raise WorkerLostError("hung", f"no message within {timeout:g} s")
            return self.pipe.recv()
        except (EOFError, OSError) as error:
            raise WorkerLostError("died", self._how_it_died()) from error

    def _how_it_died(self) -> str:
        self.process.join(1.0)
        code = self.process.exitcode
        if code is not None and code < 0:
            return f"its worker process {self.process.pid} was killed by signal {-code}"
        return f"its worker process {self.process.pid} ended with exit code {code}"

    def guilty_row(self) -> tuple[int, bool]:
        """The row that was being stepped, and whether one was."""
        progress = int(self.control[worker_side.PROGRESS])
        busy = progress != worker_side.IDLE
        return self.start + (progress if busy else 0), busy

    def kill(self) -> None:
        """Ends the process at once and takes its exit code, so that no zombie stays."""
        if self.process.is_alive():
            self.process.kill()
        self.process.join(_CLOSE_SECONDS)
        self.pipe.close()


def close_workers(workers: Sequence[Worker], owner: int) -> None:
    """Asks all workers to close, and ends those that do not."""
    if os.getpid() != owner:
        return  # A forked copy of the parent must not end the parent's workers.
    for worker in workers:
        if worker.process.is_alive():
            worker.send(worker_side.CLOSE)
    deadline = time.monotonic() + _CLOSE_SECONDS
    for worker in workers:
        worker.process.join(max(0.0, deadline - time.monotonic()))
        worker.kill()


class ProcessEnvironment(BufferedEnvironment):
    """B single worlds in worker processes."""

    def __init__(
        self,
        factory: EnvFactory,
        batch_size: int,
        seed: int | None = None,
        fault_policy: FaultPolicy | None = None,
        num_slots: int = 2,
        num_workers: int | None = None,
        start_method: str | None = None,
        start_serially: bool = False,
    ) -> None:
        """Starts the workers and waits until all worlds are made.

        Args:
            factory: makes one world; must be picklable by cloudpickle.
            batch_size: number of worlds.
            seed: of the whole batch; None for a random one.
            fault_policy: what to endure.
            num_slots: number of buffers that steps alternate between.
            num_workers: number of processes; None for one per usable core, at most one per world.
            start_method: "forkserver", "spawn" or "fork"; None for "forkserver" where there is one.
            start_serially: whether each worker must have made its worlds before the next one starts.
        """
        self._closed = True
        # The fork server loads what workers need once for all of them.
        self._context = start_context(start_method, preload=[worker_side.__name__])
        spaces = probe_spaces(factory)
        nbytes = BlockLayout(spaces, batch_size, num_slots).nbytes
        self._memory = multiprocessing.RawArray("B", nbytes)
        block = shared_array(self._memory, np.uint8)
        super().__init__(spaces, batch_size, block, num_slots, fault_policy)
        self._base_seeds = batch_seeds(seed, batch_size)
        self._ticks = 0
        self._replacements = np.zeros(batch_size, dtype=np.int64)
        self._factory_bytes = to_bytes(factory, spaces)
        self._workers: list[Worker] = []
        self._finalizer = weakref.finalize(self, close_workers, self._workers, os.getpid())
        bounds = worker_rows(batch_size, num_workers)
        try:
            for start, stop in bounds:
                self._workers.append(self._start_worker(start, stop, self._base_seeds[start:stop]))
                if start_serially:
                    self._await_ready(self._workers[-1])
            for worker in [] if start_serially else self._workers:
                self._await_ready(worker)
        except BaseException:
            self.close()
            raise

    # Workers -----------------------------------------------------------------------------------------------------

    def _start_worker(self, start: int, stop: int, seeds: list[int]) -> Worker:
        task = {
            "factory": self._factory_bytes,
            "batch_size": self._batch_size,
            "num_slots": len(self._slots),
            "start": start,
            "stop": stop,
            "seeds": seeds,
            "policy": self._log.policy,
            "fault_counts": self._log.counts.tolist(),
            "ticks": self._ticks,
            "block": self._memory,
        }
        return Worker(self._context, task)

    def _await_ready(self, worker: Worker) -> None:
        try:
            messages = worker.wait(self._log.policy.start_timeout)
        except WorkerLostError as lost:
            hint = ""
            if lost.kind == "died":
                hint = " (a script that creates worker processes must do so under `if __name__ == '__main__':`)"
            fault = Fault(worker.start, self._ticks, lost.kind, f"{lost} while making its environments{hint}")
            raise EnvironmentFaultError(fault) from lost
        if messages:
            fault = Fault(worker.start, self._ticks, "raised", f"making the environment failed: {messages[0]}")
            raise EnvironmentFaultError(fault)

    @property
    def worker_pids(self) -> list[int]:
        """Process ids of the workers."""
        return [int(worker.process.pid or 0) for worker in self._workers]

    # Stepping ----------------------------------------------------------------------------------------------------

    def _reset_into(self, index: int) -> None:
        self._drain()
        self._command(worker_side.RESET, index)

    def _step_into(self, index: int) -> None:
        self._ticks += 1
        self._command(worker_side.STEP, index)

    def _command(self, command: int, index: int) -> None:
        """Lets all workers do the same, and replaces those that do not survive it."""
        workers = self._workers
        for worker in workers:
            worker.send(command, index)
        lost: list[tuple[int, WorkerLostError]] = []
        messages: list[Any] = []
        timeout = self._log.policy.step_timeout
        for position, worker in enumerate(workers):
            try:
                messages += worker.wait(timeout)
            except WorkerLostError as error:
                lost.append((position, error))
        for fault in messages:
            self._log.add(fault)
        for position, loss in lost:
            self._replace(position, loss, command, index)

    def _drain(self) -> None:
        """Takes answers left over from a step that was interrupted, for instance by Ctrl-C; a reset follows."""
        for position, worker in enumerate(self._workers):
            try:
                for fault in worker.wait(self._log.policy.step_timeout):
                    self._log.add(fault)
            except WorkerLostError as error:
                self._replace(position, error, worker_side.RESET, self._next_index())

    def _replace(self, position: int, first_loss: WorkerLostError, command: int, index: int) -> None:
        """Starts a new worker for the rows of a lost one, until one survives its first command."""
        lost = first_loss
        while True:
            old = self._workers[position]
            row, busy = old.guilty_row()
            old.kill()
            state = "" if busy else " while idle"
            others = f"; with it, environments {old.start} to {old.stop - 1} are made anew"
            self._log.add(Fault(row, self._ticks, lost.kind, f"{lost}{state}{others}"))
            self._replacements[old.start : old.stop] += 1
            seeds = [
                row_seed(self._base_seeds[i], i, 1000 + int(self._replacements[i])) for i in range(old.start, old.stop)
            ]
            worker = self._workers[position] = self._start_worker(old.start, old.stop, seeds)
            self._await_ready(worker)
            follow_up = worker_side.RESET if command == worker_side.RESET else worker_side.RECOVER
            worker.send(follow_up, index, self._index)
            try:
                messages = worker.wait(self._log.policy.step_timeout)
            except WorkerLostError as lost_again:
                lost = lost_again
            else:
                for fault in messages:
                    self._log.add(fault)
                return

    # The rest ----------------------------------------------------------------------------------------------------

    def seed(self, seed: int) -> None:
        """Seeds all worlds, each differently, from their next `reset()` on."""
        self._base_seeds = batch_seeds(seed, self._batch_size)
        self._replacements[:] = 0
        self._ask(worker_side.SEED, [self._base_seeds[w.start : w.stop] for w in self._workers])

    @property
    def _form(self) -> str:
        return SINGLE_WORLDS

    def _cut_worlds(self, reason: str) -> dict[int, str]:
        return self._set_worlds(lost_states(self._slots[self._index], reason))

    def _get_worlds(self) -> Any:
        return [state for part in self._answers(worker_side.GET_STATE) for state in part]

    def _set_worlds(self, worlds: Any) -> dict[int, str]:
        cuts = self._answers(worker_side.SET_STATE, [worlds[w.start : w.stop] for w in self._workers])
        return {row: reason for cut in cuts for row, reason in cut.items()}

    def render(self) -> NDArray[np.uint8]:
        """One frame of each world, [B, H, W, 3]."""
        frames = [frame for part in self._answers(worker_side.RENDER) for frame in part]
        return stacked_frames(frames, "the environment")

    def _answers(self, command: int, payloads: Sequence[Any] | None = None) -> list[Any]:
        """The answer of each worker to a command that has one; raises what a worker raised."""
        answers = []
        for messages in self._ask(command, payloads):
            *faults, answer = messages
            for fault in faults:
                self._log.add(fault)
            if isinstance(answer, Exception):
                raise answer
            answers.append(answer)
        return answers

    def _ask(self, command: int, payloads: Sequence[Any] | None = None) -> list[list[Any]]:
        """Sends a rare command with a payload for each worker; gives the answer of each."""
        self._require_open()
        self._drain()
        for position, worker in enumerate(self._workers):
            worker.send(command, self._index)
            if payloads is not None:
                worker.pipe.send(payloads[position])
        timeout = self._log.policy.start_timeout
        try:
            return [worker.wait(timeout) for worker in self._workers]
        except WorkerLostError as lost:
            raise EnvironmentFaultError(Fault(0, self._ticks, lost.kind, str(lost))) from lost

    def _close(self) -> None:
        if hasattr(self, "_finalizer"):
            self._finalizer()


def to_bytes(factory: EnvFactory, spaces: BatchSpaces) -> bytes:
    """What a worker needs to make worlds, packed; a clear error where it cannot travel."""
    thing = (configs_to_send(_is_of_worlds), factory, spaces)
    return pack(thing, factory.name, "give an id as env_name, or use backend='sync'")


def _is_of_worlds(name: str) -> bool:
    """Whether worlds may use a value of the configuration; the rest would make workers load torch."""
    return name.startswith("rein.envs.") or not name.startswith("rein.")


def worker_rows(batch_size: int, num_workers: int | None) -> list[tuple[int, int]]:
    """The rows of each worker, as even as possible."""
    cores = usable_cores()
    if num_workers is not None and num_workers < 1:
        raise ValueError(f"num_workers is {num_workers}: give at least 1")
    count = min(batch_size, num_workers or cores)
    edges = [batch_size * i // count for i in range(count + 1)]
    return list(itertools.pairwise(edges))
