"""Graceful stop: the first interrupt finishes the iteration and saves, the second one stops at once."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self


class StopRequest:
    """Notices SIGINT and SIGTERM while it is entered.

    A second SIGINT raises KeyboardInterrupt, for those who do not want to wait. Outside the main thread signals are left
    alone.
    """

    def __init__(self) -> None:
        self.reason: str | None = None
        self._previous: dict[int, Any] = {}

    @property
    def is_set(self) -> bool:
        """Whether a stop was asked for."""
        return self.reason is not None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.reason is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.reason = signal.Signals(number).name
