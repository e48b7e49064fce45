"""Workers that fork from a process which has loaded what they need, for askers that did not start it.

The fork server of `multiprocessing` serves the one process that started it. A nursery serves every process of the same user
on this machine that knows its name: the actors of a cluster, which cost little themselves and die without taking with them
what was loaded. It is started by the first who asks, and ends when it has had no worker for a few seconds. Linux only: it
listens at a name that is no file, so that nothing is left behind.
"""

import contextlib
import importlib
import os
import select
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from rein.runtime.processes.living import end_without
from rein.runtime.processes.sending import pack, unpack

__all__ = ["Errand", "forked_worker", "serve"]

_IDLE_SECONDS = 5.0
_FIRST_SECONDS = 60.0
"""How long a nursery waits for its first worker."""
_TRIES = 200
_PAUSE_SECONDS = 0.05


def forked_worker(name: str, modules: Sequence[str], work: bytes) -> Connection:
    """A new process of this machine that calls `work` with the other end of a connection.

    Args:
        name: of the nursery; the first who asks for one starts it.
        modules: what it loads, once; those that are missing are left out.
        work: a packed function, which this process need not be able to load. It runs until the connection is closed; the
            new process ends with it, and with the one that asked.
    """
    for _ in range(_TRIES):
        asker = socket.socket(socket.AF_UNIX)
        try:
            asker.connect(_address(name))
        except ConnectionRefusedError:
            asker.close()
            _start(name, modules)
            continue
        _check_user(asker)
        connection = Connection(asker.detach())
        try:
            connection.send_bytes(work)
            connection.recv_bytes()
        except (EOFError, OSError):  # It was about to end.
            connection.close()
            time.sleep(_PAUSE_SECONDS)
            continue
        return connection
    raise RuntimeError(f"the nursery {name} gave no worker in {_TRIES} tries")


def _address(name: str) -> str:
    return f"\0rein-{os.getuid()}-{name}"


def _check_user(connected: socket.socket) -> int:
    """The process id of the other side; anybody may connect to a name, and only this user may."""
    size = struct.calcsize("3i")
    pid, user, _ = struct.unpack("3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    if user != os.getuid():
        raise PermissionError(f"user {user} is at the other end of a connection of user {os.getuid()}")
    return int(pid)


def _start(name: str, modules: Sequence[str]) -> None:
    """Starts the nursery, unless somebody else has just done so."""
    with socket.socket(socket.AF_UNIX) as listener:
        try:
            listener.bind(_address(name))
        except OSError:
            time.sleep(_PAUSE_SECONDS)
            return
        listener.listen(128)
        code = f"from {__name__} import serve; serve({listener.fileno()})"
        paths = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        # It detaches itself at once: who starts it may be killed with its children.
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, **paths},
            input="\n".join(modules),
            text=True,
            pass_fds=[listener.fileno()],
            start_new_session=True,
            check=True,
        )


# In the nursery.


def serve(listener_fd: int) -> None:
    """Forks a worker for everybody who connects; returns when there is none for a few seconds.

    Args:
        listener_fd: a socket that listens. The names of modules to load are read from standard input.
    """
    modules = sys.stdin.read().split()
    if os.fork():
        os._exit(0)
    listener = socket.socket(fileno=listener_fd)
    for module in modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)
    workers = 0
    until = time.monotonic() + _FIRST_SECONDS
    while workers or time.monotonic() < until:
        ready, _, _ = select.select([listener], [], [], 0.5)
        if ready:
            accepted, _ = listener.accept()
            workers += 1
            if os.fork() == 0:
                listener.close()
                _be_worker(accepted)
            accepted.close()
        ended = _reap()
        workers -= ended
        if ended or ready:
            until = time.monotonic() + _IDLE_SECONDS


def _reap() -> int:
    """How many workers have ended since the last call."""
    count = 0
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            count += 1
    return count


def _be_worker(accepted: socket.socket) -> NoReturn:
    code = 1
    try:
        end_without(_check_user(accepted))
        with Connection(accepted.detach()) as connection, contextlib.suppress(EOFError, OSError):
            work = unpack(connection.recv_bytes())
            connection.send_bytes(b"forked")
            work(connection)
        code = 0
    finally:
        # What is left of the nursery's stack is not this process's to run.
        os._exit(code)


# For an actor.


class Errand:
    """Hands questions on to a forked worker, from a process that has loaded next to nothing itself."""

    def __init__(self, name: str, modules: Sequence[str], work: bytes, task: bytes) -> None:
        """Starts the worker.

        Args:
            name: of the nursery.
            modules: what it loads.
            work: packed, what the worker does: it gets the task first, and then messages that are `("stop", number)`, or
                `("ask", question, weights or None, version)`, to be answered by `(True, answer)` or `(False, traceback)`.
            task: for the worker.
        """
        self._connection = forked_worker(name, modules, work)
        self._connection.send_bytes(task)
        self._sending = threading.Lock()
        self._version = -1

    def serve(self, question: bytes, flat: Any, version: int) -> Any:
        """The answer to a question; weights that the worker has are not sent again."""
        is_new, self._version = version != self._version, version
        try:
            self._send(("ask", question, flat if is_new else None, version))
            is_answer, content = unpack(self._connection.recv_bytes())
        except (EOFError, OSError):
            os._exit(1)  # The worker is gone, so this process is of no use.
        if not is_answer:
            raise RuntimeError(content)
        return content

    def stop_early(self, number: int) -> None:
        """Lets jobs up to this number end as soon as they have enough."""
        with contextlib.suppress(OSError):
            self._send(("stop", number))

    def pid(self) -> int:
        """Process id of this side."""
        return os.getpid()

    def _send(self, message: tuple[Any, ...]) -> None:
        with self._sending:
            self._connection.send_bytes(pack(message))
