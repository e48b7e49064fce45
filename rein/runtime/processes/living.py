"""Processes that end with the one that uses them."""

import contextlib
import ctypes
import os
import signal
import sys
import threading
from multiprocessing import parent_process
from multiprocessing.connection import wait

__all__ = ["die_with_parent", "end_with_parent", "end_without"]

_PARENT_CHECK_SECONDS = 2.0
_PR_SET_PDEATHSIG = 1


def die_with_parent(parent_pid: int) -> None:
    """Makes this process end when the one that uses it is gone, however that ended.

    On Linux the kernel sends a signal when the parent's end of the sentinel pipe closes, which works even while a call
    hangs in native code. Elsewhere, and should a copy of that pipe live on in another process, a thread looks for the
    parent every few seconds.
    """
    parent = parent_process()
    sentinel = None if parent is None else parent.sentinel
    if sentinel is not None and sys.platform == "linux":
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.fcntl(sentinel, fcntl.F_SETOWN, os.getpid())
            flags = fcntl.fcntl(sentinel, fcntl.F_GETFL)
            fcntl.fcntl(sentinel, fcntl.F_SETFL, flags | os.O_ASYNC)  # SIGIO ends a process by default.
    threading.Thread(target=_watch_parent, args=(sentinel, parent_pid), daemon=True).start()


def end_with_parent(parent_pid: int) -> None:
    """Makes this process, which `parent_pid` started itself, end at once when that one does, whatever this one is at.

    On Linux the kernel sees to it; elsewhere a thread looks every few seconds.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent_pid:  # It ended before.
            os._exit(1)
    threading.Thread(target=_watch_parent, args=(None, parent_pid), daemon=True).start()


def end_without(pid: int) -> None:
    """Makes this process end when another one, which did not start it, is gone; a thread looks every few seconds."""
    threading.Thread(target=_watch_parent, args=(None, pid), daemon=True).start()


def _watch_parent(sentinel: int | None, parent_pid: int) -> None:
    while True:
        if sentinel is None:
            threading.Event().wait(_PARENT_CHECK_SECONDS)
        elif wait([sentinel], _PARENT_CHECK_SECONDS):
            os._exit(1)
        try:
            os.kill(parent_pid, 0)
        except ProcessLookupError:
            os._exit(1)
