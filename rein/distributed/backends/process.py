"""Workers in other processes of this machine.

Weights and fragments are in shared memory. A pipe for each worker carries what is small: questions, and what belongs to an
answer besides tensors. Memory is anonymous: it is gone with the processes that use it, however they end.
"""

import contextlib
import multiprocessing.util
import os
import signal
import traceback
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np
import torch.multiprocessing  # noqa: F401 - lets tensors travel through pipes by sharing their memory
from numpy.typing import NDArray
from torch import Tensor

from rein import nest
from rein.distributed.backends.base import WARM, Service, Task, WorkerFailedError, WorkerGoneError
from rein.distributed.fragments import Fragment
from rein.distributed.weights import SharedWeights
from rein.framework.asynchronous.shared_records import Field, SharedRecords, fields_of
from rein.runtime.processes.living import die_with_parent
from rein.runtime.processes.sending import pack, unpack
from rein.runtime.processes.starting import loaded_modules, start_context

_JOIN_SECONDS = 5.0


class ProcessWorker:
    """A process, the pipe to it, and where it puts fragments."""

    def __init__(self, process: Any, pipe: Connection) -> None:
        """Keeps both."""
        self.process, self.pipe = process, pipe
        self.slot: SharedRecords | None = None
        self.closer = multiprocessing.util.Finalize(self, _end, (process, pipe), exitpriority=10)


class ProcessBackend:
    """See `Backend`."""

    def __init__(self, weights_size: int) -> None:
        """Starts nothing.

        Args:
            weights_size: of the flat array, in bytes.
        """
        self._weights = SharedWeights(weights_size)
        # A worker forks from a server that has loaded what the algorithm needs, so that one that dies is replaced soon.
        self._context = start_context(None, preload=[*loaded_modules(), WARM])
        self._workers: list[ProcessWorker] = []

    def publish(self, flat: NDArray[np.uint8], version: int) -> None:
        """Writes the weights where all workers see them."""
        self._weights.write(flat, version)

    def start(self, task: Task) -> ProcessWorker:
        """Starts a process, which takes a few seconds to be ready."""
        ours, theirs = self._context.Pipe()
        arguments = (pack(task), theirs, self._weights.block, self._weights.versions, os.getpid())
        # Not a daemon, since the environments may have processes of their own.
        process = self._context.Process(target=run_worker, args=arguments, name="rein-worker", daemon=False)  # type: ignore[attr-defined]
        process.start()
        theirs.close()
        self._workers.append(ProcessWorker(process, ours))
        return self._workers[-1]

    def ask(self, worker: ProcessWorker, method: str, *arguments: Any) -> None:
        """Sends the question."""
        try:
            worker.pipe.send_bytes(pack((method, arguments)))
        except OSError as error:
            raise WorkerGoneError(_how_it_ended(worker)) from error

    def wait(self, workers: list[ProcessWorker], timeout: float) -> list[ProcessWorker]:
        """Those whose pipes have something to read, or are closed."""
        ready = wait([worker.pipe for worker in workers], timeout)
        return [worker for worker in workers if worker.pipe in ready]

    def answer(self, worker: ProcessWorker) -> Any:
        """Reads an answer."""
        try:
            kind, content = unpack(worker.pipe.recv_bytes())
            if kind == "slot":
                fields = [Field(*field) for field in content]
                worker.slot = SharedRecords(fields, 1, worker.pipe.recv())
                kind, content = unpack(worker.pipe.recv_bytes())
        except (EOFError, OSError) as error:
            raise WorkerGoneError(_how_it_ended(worker)) from error
        if kind == "failed":
            raise WorkerFailedError(f"a worker raised:\n{content}")
        if kind == "fragment":
            assert worker.slot is not None
            fragment, structure = content
            experience, episodes = nest.pack_sequence_as(structure, worker.slot.read(0))
            return fragment._replace(experience=experience, episodes=episodes)
        return content

    def stop_early(self, number: int) -> None:
        """Notes it where all workers see it."""
        self._weights.versions[2] = number

    def stop(self, worker: ProcessWorker) -> None:
        """Kills the process."""
        worker.closer()
        self._workers.remove(worker)

    def close(self) -> None:
        """Kills all of them."""
        for worker in list(self._workers):
            self.stop(worker)


def _how_it_ended(worker: ProcessWorker) -> str:
    worker.process.join(_JOIN_SECONDS)
    code = worker.process.exitcode
    how = f"was killed by signal {-code}" if code is not None and code < 0 else f"ended with exit code {code}"
    return f"worker process {worker.process.pid} {how} (a script that trains must do so under `if __name__ == '__main__':`)"


def _end(process: Any, pipe: Connection) -> None:
    """Asks the process to end by closing its pipe, and kills it if it does not."""
    pipe.close()
    process.join(_JOIN_SECONDS)
    if process.is_alive():
        # Not by `process`, which knows nothing any more if the fork server was killed with a process group.
        with contextlib.suppress(OSError):
            os.kill(process.pid, signal.SIGKILL)
        process.join(_JOIN_SECONDS)


# In the process.


def run_worker(task: bytes, pipe: Connection, block: Tensor, versions: Tensor, parent_pid: int) -> None:
    """Answers until the pipe is closed, or the process that asks is gone."""
    # These reach the updater too, which saves what there is before it ends its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    die_with_parent(parent_pid)
    weights = SharedWeights(len(block), block, versions)
    slot: list[SharedRecords] = []
    try:
        service = Service(unpack(task).make(), lambda: int(versions[2]))
    except Exception:
        pipe.recv_bytes()
        pipe.send_bytes(pack(("failed", traceback.format_exc())))
        return
    with contextlib.suppress(EOFError, OSError), contextlib.closing(service.target):
        while True:
            method, arguments = unpack(pipe.recv_bytes())
            try:
                result = service.serve(method, arguments, *weights.read())
            except Exception:
                pipe.send_bytes(pack(("failed", traceback.format_exc())))
                continue
            _send(pipe, result, slot)


def _send(pipe: Connection, result: Any, slot: list[SharedRecords]) -> None:
    if not isinstance(result, Fragment):
        pipe.send_bytes(pack(("answer", result)))
        return
    data = (result.experience, result.episodes)
    tensors = nest.flatten(data)
    fields = fields_of(tensors)
    if not slot or fields_of(slot[0].views(0)) != fields:
        slot[:] = [SharedRecords(fields)]
        pipe.send_bytes(pack(("slot", [tuple(field) for field in fields])))
        pipe.send(slot[0].block)
    slot[0].write(0, tensors)
    structure = nest.map_structure(lambda leaf: None, data)
    pipe.send_bytes(pack(("fragment", (result._replace(experience=(), episodes=()), structure))))
