"""What a backend offers: workers that answer questions, one at a time, wherever they are."""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

NEEDS_WEIGHTS = ("collect", "gradients")
"""Methods that get the newest weights, or None where the worker has them, and their version."""

WARM = "rein.distributed.backends.warm"
"""Module that is loaded last where workers fork from; not in the updater."""


class WorkerGoneError(RuntimeError):
    """A worker has died; whatever it was asked is lost."""


class WorkerFailedError(RuntimeError):
    """A worker raised an exception, whose traceback is in the message."""


class Task(Protocol):
    """Makes what a worker asks, in the worker."""

    def make(self) -> Any:
        """In a process of its own."""

    def make_here(self) -> Any:
        """In the process of the updater."""


class Backend(Protocol):
    """Starts workers and talks to them; a worker is asked again only after it has answered."""

    def publish(self, flat: NDArray[np.uint8], version: int) -> None:
        """Makes weights the newest ones."""

    def start(self, task: Task) -> Any:
        """A worker; it may still be getting ready."""

    def ask(self, worker: Any, method: str, *arguments: Any) -> None:
        """Asks a worker for what a method of its target returns; raises `WorkerGoneError`."""

    def wait(self, workers: list[Any], timeout: float) -> list[Any]:
        """Those of some workers that have answered or died, waiting for the first one up to `timeout` seconds."""

    def answer(self, worker: Any) -> Any:
        """What a worker answered; raises `WorkerGoneError` or `WorkerFailedError`."""

    def stop_early(self, number: int) -> None:
        """Tells all workers to end jobs up to this number as soon as they have enough."""

    def stop(self, worker: Any) -> None:
        """Ends a worker, whatever it is doing."""

    def close(self) -> None:
        """Ends everything."""


class Service:
    """The other side: calls methods of a target, with weights where they need some."""

    def __init__(self, target: Any, stop_number: Callable[[], int] | None = None) -> None:
        """Has no weights yet.

        Args:
            target: answers questions.
            stop_number: up to which number jobs are to end early.
        """
        self.target = target
        self._version = -1
        if stop_number is not None:
            target.stop_number = stop_number

    def serve(self, method: str, arguments: tuple[Any, ...], flat: NDArray[np.uint8] | None, version: int) -> Any:
        """What a method returns; weights of a version that it has are not loaded again."""
        if method not in NEEDS_WEIGHTS:
            return getattr(self.target, method)(*arguments)
        is_new, self._version = version != self._version, version
        return getattr(self.target, method)(*arguments, flat if is_new else None, version)
