"""A team of workers that outlives its members."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

from rein.distributed.backends.base import Backend, Task, WorkerGoneError

logger = logging.getLogger(__name__)


class Team:
    """Workers by index. One that dies or hangs is replaced by a new one, which is asked the same again."""

    def __init__(
        self,
        backend: Backend,
        tasks: Sequence[Task],
        timeout: float,
        max_restarts: int,
        renew: Callable[[int, int], Task],
    ) -> None:
        """Starts the workers.

        Args:
            backend: where.
            tasks: of each.
            timeout: seconds after which a worker that does not answer counts as dead.
            max_restarts: how often in a row one may die.
            renew: the task of a replacement, from the index and how many there have been.
        """
        self._backend, self._timeout, self._max_restarts, self._renew = backend, timeout, max_restarts, renew
        self._workers = [backend.start(task) for task in tasks]
        self._questions: dict[int, tuple[Any, ...]] = {}
        self._asked_at: dict[int, float] = {}
        self._deaths = [0] * len(tasks)
        self.replaced = 0
        """Workers that were replaced so far."""
        self.lost: set[int] = set()
        """Indices of workers that were replaced; who needs to know takes them out."""

    def __len__(self) -> int:
        return len(self._workers)

    @property
    def waiting_for(self) -> list[int]:
        """Workers that owe an answer."""
        return list(self._questions)

    def ask(self, index: int, method: str, *arguments: Any) -> None:
        """Asks a worker that owes no answer."""
        # Put at the end: who was asked first answers first, where all are ready.
        self._questions[index] = (method, *arguments)
        self._asked_at[index] = time.monotonic()
        try:
            self._backend.ask(self._workers[index], method, *arguments)
        except WorkerGoneError as error:
            self._replace(index, str(error))

    def next_answer(self, among: Sequence[int] | None = None) -> tuple[int, Any]:
        """The next answer of some of the workers that owe one, and whose it is."""
        while True:
            indices = [index for index in self._questions if among is None or index in among]
            by_worker = {id(self._workers[index]): index for index in indices}
            # One that hangs is noticed even while others keep answering.
            left = [self._asked_at[index] + self._timeout - time.monotonic() for index in indices]
            ready = self._backend.wait([self._workers[index] for index in indices], max(0.0, min(left)))
            late = [index for index, seconds in zip(indices, left, strict=True) if seconds <= 0]
            late = [index for index in late if self._workers[index] not in ready]
            for index in late:
                self._replace(index, f"gave no answer for {self._timeout:g} s")
            if not ready:
                continue
            index = by_worker[id(ready[0])]
            try:
                answer = self._backend.answer(ready[0])
            except WorkerGoneError as error:
                self._replace(index, str(error))
                continue
            del self._questions[index]
            self._deaths[index] = 0
            return index, answer

    def ask_all(self, method: str, *arguments: Any) -> list[Any]:
        """Asks every worker; returns the answers in their order."""
        for index in range(len(self)):
            self.ask(index, method, *arguments)
        answers = dict(self.next_answer() for _ in range(len(self)))
        return [answers[index] for index in range(len(self))]

    def _replace(self, index: int, reason: str) -> None:
        self._deaths[index] += 1
        if self._deaths[index] > self._max_restarts:
            raise WorkerGoneError(f"worker {index} died {self._deaths[index]} times in a row, at last: {reason}")
        logger.warning("worker %d %s: it is replaced", index, reason)
        self._backend.stop(self._workers[index])
        self.replaced += 1
        self.lost.add(index)
        self._workers[index] = self._backend.start(self._renew(index, self.replaced))
        method, *arguments = self._questions.pop(index)
        self.ask(index, method, *arguments)
