"""The worker side of the process backend: steps some rows of a batch in another process.

Commands come through shared memory and a semaphore, observations go back through the shared block. A pipe carries only
what is rare: faults, frames and saved states. This module must not load torch.
"""

import signal
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rein.config.configs import ACTIVE
from rein.envs.faults import EnvironmentFaultError, FaultLog, FaultPolicy
from rein.envs.rows import EnvRows
from rein.envs.shared_block import BlockLayout
from rein.runtime.processes.living import die_with_parent
from rein.runtime.processes.sending import unpack

__all__ = ["WorkerTask", "run_worker"]

# Commands, and positions in the control array of a worker.
RESET, STEP, RECOVER, SEED, RENDER, GET_STATE, SET_STATE, CLOSE = range(8)
COMMAND, INDEX, PREVIOUS, PROGRESS, TICKS, MESSAGES, CONTROL_SIZE = range(7)

IDLE = -1
"""Value of PROGRESS while no world is being stepped."""


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
