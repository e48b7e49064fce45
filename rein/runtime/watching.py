"""Who watches a run from inside: told of every step that is collected and of every update, if somebody wants to know.

Most runs are not watched; then `current_watcher` gives None, and nobody is told anything.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rein.data_structures import LossInfo, TimeStep
from rein.runtime.active import ACTIVE


class Watcher(Protocol):
    """Is told what happens inside an iteration."""

    def saw_steps(self, time_steps: TimeStep) -> None:
        """Called with time steps as the environments gave them, [T, B, ...]; their tensors may be written over later."""

    def collected(self) -> None:
        """Called when the rollout of an iteration is complete, before anything is learnt from it."""

    def updated(self, name: str, loss_info: LossInfo) -> None:
        """Called after an update of parameters, with the name of what learns and its losses averaged to scalars."""


def current_watcher() -> Watcher | None:
    """Who watches the run that this thread is in; None if nobody does."""
    activation = ACTIVE.get()
    return None if activation is None else activation.run.watcher


@contextmanager
def unwatched() -> Iterator[None]:
    """A block in which nobody watches the current run: what is done there is told elsewhere."""
    activation = ACTIVE.get()
    if activation is None:
        yield
        return
    run, watcher = activation.run, activation.run.watcher
    run.watcher = None
    try:
        yield
    finally:
        run.watcher = watcher
