"""Which run is current, per thread and per asynchronous task."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rein.runtime.run import Run


@dataclass(slots=True)
class Activation:
    """One entry into a run, with what is scoped to it; never changed once made.

    Attributes:
        run: the run that is current.
        parent: the activation to return to.
        scope: prefix of summary names, empty or ending in "/".
        conditions: all must hold for summaries to be recorded.
        device_context: torch's default-device mode, if the run's device needs one.
    """

    run: Run
    parent: Activation | None = None
    scope: str = ""
    conditions: tuple[Callable[[], bool], ...] = ()
    device_context: AbstractContextManager[Any] | None = None

    def with_scope(self, scope: str) -> Activation:
        """Returns the same activation with another prefix of summary names.

        Args:
            scope: empty or ending in "/".
        """
        return Activation(self.run, self.parent, scope, self.conditions, self.device_context)


ACTIVE: ContextVar[Activation | None] = ContextVar("rein_active_run", default=None)
