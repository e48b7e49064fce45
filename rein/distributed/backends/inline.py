"""Workers in this process: each does what it was asked when its answer is wanted, so that every run is the same."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rein.distributed.backends.base import Service, Task


class InlineWorker:
    """A worker and what it was asked last."""

    def __init__(self, service: Service) -> None:
        """Was not asked yet."""
        self.service = service
        self.question: Any = None


class InlineBackend:
    """See `Backend`."""

    def __init__(self) -> None:
        """Has no workers."""
        self._weights: tuple[NDArray[np.uint8] | None, int] = (None, -1)
        self._workers: list[InlineWorker] = []
        self._stop_number = -1

    def publish(self, flat: NDArray[np.uint8], version: int) -> None:
        """Keeps the weights."""
        self._weights = (flat, version)

    def start(self, task: Task) -> InlineWorker:
        """Makes the target at once."""
        self._workers.append(InlineWorker(Service(task.make_here(), lambda: self._stop_number)))
        return self._workers[-1]

    def ask(self, worker: InlineWorker, method: str, *arguments: Any) -> None:
        """Keeps the question, and the weights of now."""
        worker.question = (method, arguments, *self._weights)

    def wait(self, workers: list[InlineWorker], timeout: float) -> list[InlineWorker]:
        """The first of them: others have their turns later."""
        return workers[:1]

    def answer(self, worker: InlineWorker) -> Any:
        """Does what was asked."""
        return worker.service.serve(*worker.question)

    def stop_early(self, number: int) -> None:
        """Those whose answers are still wanted will do less."""
        self._stop_number = number

    def stop(self, worker: InlineWorker) -> None:
        """Closes its target."""
        close: Callable[[], None] = worker.service.target.close
        close()
        self._workers.remove(worker)

    def close(self) -> None:
        """Closes all targets."""
        for worker in list(self._workers):
            self.stop(worker)
