"""A lock that says that a process trains a run; the system releases it when the process ends, however it ends."""

import contextlib
import errno
import logging
import os
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows has none: there only run.json tells who trains a run.
    fcntl = None  # type: ignore[assignment]

logger = logging.getLogger(__name__)

LOCK_FILE = ".lock"
_UNSUPPORTED = {errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EROFS}


class RunIsLockedError(ValueError):
    """Another process trains the run."""


class _Held:
    """An open lock file, shared by all of this process that train in its directory."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.users = 1


_HELD: dict[tuple[int, int], _Held] = {}


class RunLock:
    """The lock of one directory, taken once or not at all."""

    def __init__(self, directory: Path) -> None:
        """Takes nothing."""
        self._path = directory / LOCK_FILE
        self._key: tuple[int, int] | None = None

    @property
    def is_held(self) -> bool:
        """Whether it was taken by this object."""
        return self._key is not None

    def acquire(self) -> None:
        """Takes the lock; this process may have it already.

        Raises:
            RunIsLockedError: another process has it.
        """
        if self._key is not None or fcntl is None:
            return
        # Not opened again if it is held: closing any descriptor of the file would release the lock.
        with contextlib.suppress(FileNotFoundError):
            key = _identity(os.lstat(self._path))
            if key in _HELD:
                _HELD[key].users += 1
                self._key = key
                return
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
        key = _identity(os.fstat(descriptor))
        try:
            # Locks of this kind do not pass to worker processes, which may live a little longer than the trainer.
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.read(descriptor, 32).decode(errors="replace").strip()
            os.close(descriptor)
            if error.errno in _UNSUPPORTED:
                logger.warning("%s cannot be locked (%s): make sure that one process trains the run", self._path, error)
                return
            raise RunIsLockedError(owner if owner.isdigit() else "") from None
        _HELD[key] = _Held(descriptor)
        self._key = key
        with contextlib.suppress(OSError):  # A full disk: only a message says less then.
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Gives the lock back, once nobody else in this process needs it."""
        if self._key is None:
            return
        held = _HELD[self._key]
        held.users -= 1
        if not held.users:
            del _HELD[self._key]
            os.close(held.descriptor)
        self._key = None


def _identity(facts: os.stat_result) -> tuple[int, int]:
    return facts.st_dev, facts.st_ino
