"""Graceful stop: the first interrupt finishes the iteration and saves, the second one stops at once."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any, Self

GRACE_SECONDS = 10.0
"""After SIGTERM, for the iteration to end; schedulers of clusters kill after 30 seconds and more."""
LEAVE_SECONDS = 16.0
"""After SIGTERM, until a command leaves at all costs."""


class StopNowError(KeyboardInterrupt):
    """A stop was asked for again, or what runs did not end in time.

    Attributes:
        number: of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(f"stopped at once by {signal.Signals(number).name}")
        self.number = number


def exit_code(signal_name: str | None) -> int:
    """What a command that a signal stopped exits with, 130 or 143; 0 if none did."""
    return 0 if signal_name is None else 128 + signal.Signals[signal_name].value


class StopRequest:
    """Notices SIGINT and SIGTERM while it is entered.

    A second one raises `StopNowError`, a KeyboardInterrupt, for those who do not want to wait. So does a SIGTERM when what
    runs has not ended after `GRACE_SECONDS`: it may hang. Outside the main thread signals are left alone.
    """

    def __init__(self) -> None:
        self.reason: str | None = None
        self._previous: dict[int, Any] = {}
        self._timer: threading.Timer | None = None

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
        self.disarm()
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()

    def disarm(self) -> None:
        """Says that the iteration has ended: what follows, such as saving, may take its time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def named(self, stop: KeyboardInterrupt) -> KeyboardInterrupt:
        """`stop` with the signal that it is of: libraries that wait in C make a plain one of `StopNowError`."""
        if self.reason is None or isinstance(stop, StopNowError):
            return stop
        return StopNowError(signal.Signals[self.reason])

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.reason is not None:
            raise StopNowError(number)
        self.reason = signal.Signals(number).name
        for notify in _LISTENERS:
            notify(number)
        if number == signal.SIGTERM:
            main = threading.main_thread().ident
            assert main is not None
            # The same signal again, to the main thread: it interrupts Python code and waiting calls.
            self._timer = threading.Timer(GRACE_SECONDS, signal.pthread_kill, (main, number))
            self._timer.daemon = True
            self._timer.start()


_LISTENERS: list[Callable[[int], None]] = []


@contextlib.contextmanager
def leaving_in_time(say_stopped: Callable[[], None]) -> Iterator[None]:
    """A block of a command that ends with the process after SIGTERM, even if something hangs that nothing interrupts.

    Args:
        say_stopped: called before; what is worth keeping must be on the disk by then.
    """
    over = threading.Event()

    def leave(number: int) -> None:
        if over.wait(LEAVE_SECONDS):
            return
        with contextlib.suppress(Exception):
            say_stopped()
        os._exit(128 + number)

    def listen(number: int) -> None:
        if number == signal.SIGTERM:
            threading.Thread(target=leave, args=(number,), name="leaving in time", daemon=True).start()

    _LISTENERS.append(listen)
    try:
        yield
    finally:
        over.set()
        _LISTENERS.remove(listen)
