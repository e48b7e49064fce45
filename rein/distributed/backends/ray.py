"""Workers as Ray actors, on this machine or on a cluster.

Weights are put into the object store once per version; fragments come back through it. On Linux an actor is a small process
that hands questions on to one that was forked, on its node, from a nursery which has loaded torch and Rein: a new worker
costs a fraction of what it takes to load them again, and workers share that memory. A cluster that is started here has no
dashboard, and is ended with the run. Ray listens at the address of the machine, also for one node: a warning says where.
"""

import contextlib
import logging
import os
import secrets
import signal
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rein import nest
from rein.distributed.address import check_address
from rein.distributed.backends.base import WARM, Service, Task, WorkerFailedError, WorkerGoneError
from rein.distributed.fragments import Fragment
from rein.distributed.scheme import Scheme, SchemeError
from rein.runtime.processes.nursery import Errand
from rein.runtime.processes.sending import pack, unpack
from rein.runtime.processes.starting import loaded_modules

logger = logging.getLogger(__name__)

_NURSERY = secrets.token_hex(8)
"""Name of those of this process: one on every node."""


class RayWorker:
    """An actor, and the answer that it owes."""

    def __init__(self, actor: Any) -> None:
        """Was not asked yet."""
        self.actor = actor
        self.answer: Any = None


class RayBackend:
    """See `Backend`."""

    def __init__(self, scheme: Scheme, workers: int) -> None:
        """Joins a cluster, or starts one.

        Args:
            scheme: says where.
            workers: that will be started.
        """
        if scheme.address is not None and _has_token():
            # Who starts a cluster with `ray start` asks for the token where there is one; who joins it must offer it.
            os.environ.setdefault("RAY_AUTH_MODE", "token")
        import ray

        self._ray = ray
        self._owns_cluster = False
        if not ray.is_initialized():
            self._connect(scheme, workers)
        # Questions have one thread, and what must be heard in the midst of one has another.
        options: dict[str, Any] = {"num_cpus": 1, "max_restarts": 0, "concurrency_groups": {"control": 1}}
        self._forks = sys.platform == "linux"
        self._actor = ray.remote(**options)(Errand if self._forks else RayService)
        self._modules = [*loaded_modules(), WARM]
        self._weights: tuple[Any, int] = (None, -1)
        self._workers: list[RayWorker] = []

    def _connect(self, scheme: Scheme, workers: int) -> None:
        ray: Any = self._ray
        quiet: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False, "logging_level": logging.WARNING}
        if scheme.address is not None:
            check_address(scheme.address)
            try:
                self._init(address=scheme.address, log_to_driver=False, logging_level=logging.WARNING)
            except ConnectionError as error:
                raise SchemeError(
                    f"the Ray cluster at {scheme.address} lets nobody in ({error}): it may be of another version, or ask for "
                    "a token (`ray get-auth-token` on its head; put it into RAY_AUTH_TOKEN here)"
                ) from error
            return
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        # Ray would let workers give way to everything else on the machine, the updater that waits for them included.
        os.environ.setdefault("RAY_worker_niceness", "0")
        # Not the cluster that somebody has started, or left traces of, on this machine.
        self._init(
            address="local",
            num_cpus=max(os.cpu_count() or 1, workers),
            object_store_memory=max(scheme.object_store_mb, 80) * 2**20,
            **quiet,
        )
        self._owns_cluster = True
        node = ray.nodes()[0]
        logger.warning(
            "Ray listens at %s, ports %s and %s, while the run lasts: a firewall keeps others away",
            node["NodeManagerAddress"],
            node["NodeManagerPort"],
            node["ObjectManagerPort"],
        )

    def _init(self, **settings: Any) -> None:
        """Connects, without Ray's own answer to SIGTERM, `sys.exit(15)`, which would take the place of the run's."""
        is_main = threading.current_thread() is threading.main_thread()
        handler, is_stopped = signal.getsignal(signal.SIGTERM), False
        try:
            self._ray.init(**settings)
        except SystemExit:
            self._ray.shutdown()
            is_stopped = is_main
        if is_main:
            signal.signal(signal.SIGTERM, handler)
        if is_stopped:
            signal.raise_signal(signal.SIGTERM)

    def publish(self, flat: NDArray[np.uint8], version: int) -> None:
        """Puts the weights into the object store."""
        self._weights = (self._ray.put(flat), version)

    def start(self, task: Task) -> RayWorker:
        """Starts an actor, which takes a few seconds to be ready."""
        arguments = (_NURSERY, self._modules, pack(run_worker)) if self._forks else ()
        self._workers.append(RayWorker(self._actor.remote(*arguments, pack(task))))
        return self._workers[-1]

    def ask(self, worker: RayWorker, method: str, *arguments: Any) -> None:
        """Sends the question, with a reference to the weights."""
        worker.answer = worker.actor.serve.remote(pack((method, arguments)), *self._weights)

    def wait(self, workers: list[RayWorker], timeout: float) -> list[RayWorker]:
        """Those whose answers are there, or will never come."""
        ready, _ = self._ray.wait([worker.answer for worker in workers], num_returns=1, timeout=timeout)
        return [worker for worker in workers if worker.answer in ready]

    def answer(self, worker: RayWorker) -> Any:
        """Fetches an answer."""
        exceptions: Any = self._ray.exceptions
        try:
            head, arrays = self._ray.get(worker.answer)
        except exceptions.RayTaskError as error:
            raise WorkerFailedError(f"a worker raised:\n{error}") from error
        except exceptions.RayError as error:
            raise WorkerGoneError(f"a Ray worker is gone: {type(error).__name__}") from error
        result, structure = unpack(head)
        if structure is None:
            return result
        # Arrays in the object store are read-only, and the store is small.
        experience, episodes = nest.pack_sequence_as(structure, [torch.from_numpy(one.copy()) for one in arrays])
        return result._replace(experience=experience, episodes=episodes)

    def stop_early(self, number: int) -> None:
        """Tells all actors."""
        for worker in self._workers:
            worker.actor.stop_early.options(concurrency_group="control").remote(number)

    def stop(self, worker: RayWorker) -> None:
        """Kills the actor."""
        with contextlib.suppress(Exception):
            self._ray.kill(worker.actor, no_restart=True)
        self._workers.remove(worker)

    def close(self) -> None:
        """Kills all actors, and the cluster if it was started here."""
        for worker in list(self._workers):
            self.stop(worker)
        if self._owns_cluster:
            self._ray.shutdown()
            self._owns_cluster = False


def _has_token() -> bool:
    """Whether this machine has the secret that Ray's clusters may ask for."""
    named = {"RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"} & os.environ.keys()
    return bool(named) or (Path.home() / ".ray" / "auth_token").exists()


class RayService:
    """The actor where processes cannot fork: it does the work itself."""

    def __init__(self, task: bytes) -> None:
        """Makes the target."""
        self._stop_number = -1
        self._service = Service(unpack(task).make(), lambda: self._stop_number)

    def serve(self, question: bytes, flat: Any, version: int) -> tuple[bytes, list[NDArray[Any]]]:
        """Answers: what is small as bytes, and tensors of a fragment as arrays."""
        return answered(self._service, question, flat, version)

    def stop_early(self, number: int) -> None:
        """Lets jobs up to this number end as soon as they have enough."""
        self._stop_number = number

    def pid(self) -> int:
        """Process id."""
        return os.getpid()


def answered(service: Service, question: bytes, flat: Any, version: int) -> tuple[bytes, list[NDArray[Any]]]:
    """The answer of a service: what is small as bytes, and tensors of a fragment as arrays."""
    method, arguments = unpack(question)
    result = service.serve(method, arguments, flat, version)
    if not isinstance(result, Fragment):
        return pack((result, None)), []
    data = (result.experience, result.episodes)
    structure = nest.map_structure(lambda leaf: None, data)
    head = pack((result._replace(experience=(), episodes=()), structure))
    return head, [tensor.numpy() for tensor in nest.flatten(data)]


def run_worker(connection: Connection) -> None:
    """Does the work of an `Errand`, in a forked process."""
    stop = [-1]

    def stop_number() -> int:
        # While a question is being answered, nothing else can come.
        while connection.poll(0):
            stop[0] = unpack(connection.recv_bytes())[1]
        return stop[0]

    service: Service | None = None
    failure = ""
    try:
        service = Service(unpack(connection.recv_bytes()).make(), stop_number)
    except Exception:
        failure = traceback.format_exc()
    with contextlib.closing(service.target) if service is not None else contextlib.nullcontext():
        while True:
            kind, *content = unpack(connection.recv_bytes())
            if kind == "stop":
                stop[0] = content[0]
                continue
            try:
                if service is None:
                    raise WorkerFailedError(failure)
                answer: tuple[bool, Any] = (True, answered(service, *content))
            except Exception:
                answer = (False, failure or traceback.format_exc())
            connection.send_bytes(pack(answer))
