"""The worker side of the process backend: steps some rows of a batch in another process.

Commands come through shared memory and a semaphore, observations go back through the shared block. A pipe carries only
what is rare: faults, frames and saved states. This module must not load torch.
"""

import contextlib
import os
import signal
import sys
import threading
from dataclasses import dataclass
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rein.config.configs import ACTIVE
from rein.envs.faults import EnvironmentFaultError, FaultLog, FaultPolicy
from rein.envs.process_sending import unpack
from rein.envs.rows import EnvRows
from rein.envs.shared_block import BlockLayout

__all__ = ["WorkerTask", "run_worker"]

# Commands, and positions in the control array of a worker.
RESET, STEP, RECOVER, SEED, RENDER, GET_STATE, SET_STATE, CLOSE = range(8)
COMMAND, INDEX, PREVIOUS, PROGRESS, TICKS, MESSAGES, CONTROL_SIZE = range(7)

IDLE = -1
"""Value of PROGRESS while no world is being stepped."""
_PARENT_CHECK_SECONDS = 2.0


@dataclass
class WorkerTask:
    """What a worker needs to know; travels once, when the process starts."""

    factory: bytes
    """Packed: the configuration in force, the `EnvFactory` and the `BatchSpaces`."""
    batch_size: int
    num_slots: int
    start: int
    stop: int
    """Rows `start` to `stop` (not included) are this worker's."""
    seeds: list[int]
    policy: FaultPolicy
    fault_counts: list[int]
    """[B] faults so far."""
    ticks: int
    block: Any
    control: Any
    go: Any
    done: Any
    pipe: Connection
    parent_pid: int


def shared_array(raw: Any, dtype: Any) -> NDArray:
    """A view of shared memory as an array."""
    return np.frombuffer(raw, dtype=dtype)


def run_worker(task: WorkerTask) -> None:
    """Serves commands until told to close or until the parent process is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent, which closes its workers.
    die_with_parent(task.parent_pid)
    control = shared_array(task.control, np.int64)
    log = FaultLog(task.policy, task.batch_size, announce=False)
    log.counts[:] = task.fault_counts
    try:
        rows = _make_rows(task, control, log)
    except Exception as error:
        _reply(task, control, [f"{type(error).__name__}: {error}"])
        return
    _reply(task, control, [])
    while True:
        task.go.acquire()
        if control[COMMAND] == CLOSE:
            break
        _reply(task, control, _serve(rows, task, control, log))
    rows.close()


def _make_rows(task: WorkerTask, control: NDArray[np.int64], log: FaultLog) -> EnvRows:
    configs, factory, spaces = unpack(task.factory)
    ACTIVE.put(configs)
    layout = BlockLayout(spaces, task.batch_size, task.num_slots)
    slots = [slot.rows(task.start, task.stop) for slot in layout.slots(shared_array(task.block, np.uint8))]
    progress = control[PROGRESS : PROGRESS + 1]
    rows = EnvRows(factory, spaces, layout, slots, task.start, task.seeds, log, progress)
    rows.ticks = task.ticks
    return rows


def _serve(rows: EnvRows, task: WorkerTask, control: NDArray[np.int64], log: FaultLog) -> list[Any]:
    """Obeys one command; gives the messages for the parent: the faults, and the answer if the command has one."""
    command, index = int(control[COMMAND]), int(control[INDEX])
    log.recent.clear()
    answer: list[Any] = []
    try:
        if command == STEP:
            rows.step(index)
        elif command == RESET:
            rows.reset(index)
        elif command == RECOVER:
            rows.recover(index, int(control[PREVIOUS]))
        elif command == SEED:
            rows.seed(task.pipe.recv())
        elif command == RENDER:
            answer = [_attempt(rows.render)]
        elif command == GET_STATE:
            answer = [_attempt(rows.get_state)]
        elif command == SET_STATE:
            states = task.pipe.recv()
            answer = [_attempt(lambda: rows.set_state(states, index))]
    except EnvironmentFaultError:
        pass  # Nothing is lost: the faults are sent below, and the parent counts them and raises the same.
    return [*log.recent, *answer] if log.recent or answer else []


def _attempt(function: Any) -> Any:
    """What `function` gives, or the exception that it raised."""
    try:
        return function()
    except Exception as error:
        return RuntimeError(f"{type(error).__name__}: {error}")


def _reply(task: WorkerTask, control: NDArray[np.int64], messages: list[Any]) -> None:
    control[PROGRESS] = IDLE
    control[MESSAGES] = len(messages)
    task.done.release()
    # After the release, so that a message larger than the pipe finds the parent reading.
    for message in messages:
        task.pipe.send(message)


def die_with_parent(parent_pid: int) -> None:
    """Makes this process end when the one that uses it is gone, however that ended.

    On Linux the kernel sends a signal when the parent's end of the sentinel pipe closes, which works even while a world
    hangs in native code. Elsewhere, and should a copy of that pipe live on in another process, a thread looks for the
    parent every few seconds.
    """
    parent = parent_process()
    sentinel = None if parent is None else parent.sentinel
    if sentinel is not None and sys.platform == "linux":
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.fcntl(sentinel, fcntl.F_SETOWN, os.getpid())
            flags = fcntl.fcntl(sentinel, fcntl.F_GETFL)
            fcntl.fcntl(sentinel, fcntl.F_SETFL, flags | os.O_ASYNC)  # SIGIO ends a process by default.
    threading.Thread(target=_watch_parent, args=(sentinel, parent_pid), daemon=True).start()


def _watch_parent(sentinel: int | None, parent_pid: int) -> None:
    while True:
        if sentinel is None:
            threading.Event().wait(_PARENT_CHECK_SECONDS)
        elif wait([sentinel], _PARENT_CHECK_SECONDS):
            os._exit(1)
        try:
            os.kill(parent_pid, 0)
        except ProcessLookupError:
            os._exit(1)
