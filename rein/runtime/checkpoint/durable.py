"""Files that survive a crash once written, and directories whose owner can be told dead or alive."""

import ctypes
import errno
import hashlib
import logging
import os
import re
import secrets
import shutil
import socket
from collections.abc import Iterable
from pathlib import Path

from rein.runtime.checkpoint.manifest import FileRecord
from rein.runtime.checkpoint.tensor_file import Buffer

logger = logging.getLogger(__name__)

_SAVING = re.compile(r"\.saving-\d+-([0-9a-f]{12})-(\d+)-(\d+)-[0-9a-f]{8}")
_REMOVING = re.compile(r"\.removing-\d+-[0-9a-f]{8}")
_BUFFER_BYTES = 1 << 20
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def write_file(path: Path, pieces: Iterable[Buffer]) -> FileRecord:
    """Writes a new file through to the disk and gives its size and hash."""
    digest = hashlib.sha256()
    size = 0
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o666)
    with os.fdopen(descriptor, "wb", buffering=_BUFFER_BYTES) as file:
        for piece in pieces:
            digest.update(piece)
            file.write(piece)
            size += len(piece)
        file.flush()
        os.fsync(file.fileno())
    return FileRecord(size, digest.hexdigest())


def sync_directory(path: Path) -> None:
    """Writes the entries of the directory `path` through to the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directories(path: Path) -> None:
    """Creates `path` and its missing parents, each written through to the disk."""
    missing = []
    while not path.is_dir():
        missing.append(path)
        if path.parent == path:
            break
        path = path.parent
    for directory in reversed(missing):
        directory.mkdir(exist_ok=True)
        sync_directory(directory.parent)


def saving_name(step: int) -> str:
    """A fresh name for a directory that this process is filling."""
    pid = os.getpid()
    owner = f"{_machine()}-{pid}-{_start_time(pid) or 0}"
    return f".saving-{step}-{owner}-{secrets.token_hex(4)}"


def remove_directory(path: Path, step: int) -> None:
    """Removes the checkpoint `path` so that a crash in between never leaves half of one."""
    doomed = path.with_name(f".removing-{step}-{secrets.token_hex(4)}")
    os.rename(path, doomed)
    sync_directory(path.parent)
    shutil.rmtree(doomed, ignore_errors=True)


def put_in_place(new: Path, path: Path) -> None:
    """Puts the directory `new` in the place of the directory `path`, whose content is removed, or of nothing.

    Where the system can exchange two names in one step, there is a whole directory under `path` at any moment; elsewhere
    there is none for an instant, and a crash then leaves both of them beside it.
    """
    if not path.exists():
        os.rename(new, path)
    elif _exchange(new, path):
        sync_directory(path.parent)
        shutil.rmtree(new)
    else:
        old = path.with_name(f".{path.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        os.rename(path, old)
        os.rename(new, path)
        shutil.rmtree(old)
    sync_directory(path.parent)


def _exchange(first: Path, second: Path) -> bool:
    """Exchanges two names in one step; False where the system or the file system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        return False
    if rename(_AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        return False
    raise OSError(number, os.strerror(number), str(first), None, str(second))


def remove_leftovers(directory: Path) -> None:
    """Removes what crashed processes of this machine left in `directory`.

    What belongs to a running process, or to another machine or container, is left alone.
    """
    for name in os.listdir(directory):
        if _REMOVING.fullmatch(name) or _is_abandoned(name):
            shutil.rmtree(directory / name, ignore_errors=True)
            if os.path.lexists(directory / name):
                logger.warning("could not remove the leftover %s", directory / name)


def _is_abandoned(name: str) -> bool:
    match = _SAVING.fullmatch(name)
    if match is None or match[1] != _machine():
        return False
    return not _is_running(int(match[2]), int(match[3]))


def _machine() -> str:
    """Stands for the set of processes among which a process id is unique."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return hashlib.sha256(f"{socket.gethostname()} {namespace}".encode()).hexdigest()[:12]


def _is_running(pid: int, start_time: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # Nothing is lost: it exists, and belongs to another user.
    now = _start_time(pid)
    # Where the system does not tell, a process with that id counts as the owner.
    return now is None or start_time == 0 or now == start_time


def _start_time(pid: int) -> int | None:
    """Clock ticks between boot and the start of a process; -1 for a zombie, None if unknown."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = text[text.rindex(")") + 1 :].split()
    return -1 if fields[0] in "ZX" else int(fields[19])
