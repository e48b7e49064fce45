"""Small files of a directory that others may have written: regular ones, inside it, of a bounded size."""

import json
import os
import stat
from pathlib import Path
from typing import Any

MAX_BYTES = 64 * 2**20
_MAX_DEPTH = 100


class PlainFileError(ValueError):
    """A file is no regular one, lies outside its directory, is too large, or is no JSON."""


def read_plain(path: str | os.PathLike[str], within: str | os.PathLike[str], limit: int = MAX_BYTES) -> bytes:
    """The content of a regular file; never waits for a pipe or a device.

    Args:
        path: the file.
        within: the directory that it must really lie in, after all links.
        limit: bytes that it may have.

    Raises:
        PlainFileError: it is something else.
        OSError: there is none, or it cannot be read.
    """
    root, real = os.path.realpath(within), os.path.realpath(path)
    if os.path.commonpath([root, real]) != root:
        raise PlainFileError(f"{path} is a link to {real}, outside of {root}: it is not read")
    descriptor = os.open(real, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    with os.fdopen(descriptor, "rb") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise PlainFileError(f"{path} is no regular file: it is not read")
        if facts.st_size > limit:
            raise PlainFileError(f"{path} has {facts.st_size:,} bytes, more than the {limit:,} that are read")
        content = file.read(limit + 1)
    if len(content) > limit:
        raise PlainFileError(f"{path} has more than the {limit:,} bytes that are read")
    return content


def read_json(path: str | os.PathLike[str], within: str | os.PathLike[str], limit: int = MAX_BYTES) -> Any:
    """What a JSON file holds.

    Raises:
        PlainFileError: it is damaged, nested too deep, or no regular file inside `within`.
        OSError: there is none, or it cannot be read.
    """
    content = read_plain(path, within, limit)
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise PlainFileError(f"{path} is damaged: {error}") from error
    _check_depth(path, found)
    return found


def _check_depth(path: str | os.PathLike[str], content: Any) -> None:
    level, depth = [content], 0
    while level:
        if depth > _MAX_DEPTH:
            raise PlainFileError(f"{path} is damaged: it is nested more than {_MAX_DEPTH} deep")
        inner = [one for one in level if isinstance(one, dict | list)]
        level = [part for one in inner for part in (one.values() if isinstance(one, dict) else one)]
        depth += 1


def replace_file(path: Path, content: bytes) -> None:
    """Replaces a file in one step, so that a crash, also of the machine, leaves the old or the new one.

    Args:
        path: its folder is made if it does not exist.
        content: of the file.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name of a fixed form, so that what a killed process left is recognized.
    temporary = path.parent / f".{path.name}.{os.getpid()}.part"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Makes names in a folder last over a crash of the machine, where the system can."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:  # Windows opens no folders.
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
