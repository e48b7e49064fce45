"""One checkpoint: a directory of a manifest and two files for each component."""

import hashlib
import mmap
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from errno import EIO, ELOOP, ENOENT, ENOTDIR
from pathlib import Path
from typing import Any, NamedTuple

from rein.runtime.checkpoint import strict_json
from rein.runtime.checkpoint.decoding import decode_component
from rein.runtime.checkpoint.durable import sync_directory, write_file
from rein.runtime.checkpoint.encoding import EncodedComponent
from rein.runtime.checkpoint.errors import CheckpointError, DamagedCheckpointError
from rein.runtime.checkpoint.manifest import (
    MANIFEST,
    MAX_MANIFEST_BYTES,
    ComponentRecord,
    FileRecord,
    Manifest,
    dump_manifest,
    parse_manifest,
    structure_file,
    tensor_file,
)
from rein.runtime.checkpoint.tensor_file import Source, TensorFile, encode_file

MAP_BYTES = 64 << 20
"""A larger file is memory-mapped, a smaller one is read."""


class Checkpoint(NamedTuple):
    """A verified checkpoint that was read.

    Attributes:
        step: what it was saved as.
        components: the state of each component that was asked for, by name; tensors on the CPU.
        path: its directory.
    """

    step: int
    components: dict[str, Any]
    path: Path


def write_archive(path: Path, step: int, components: Mapping[str, EncodedComponent]) -> Manifest:
    """Fills the empty directory `path`, manifest last, everything written through to the disk."""
    records = {}
    for name, component in components.items():
        structure = write_file(path / structure_file(name), [component.structure])
        tensors = None
        if component.tensors:
            tensors = write_file(path / tensor_file(name), encode_file(component.tensors))
        records[name] = ComponentRecord(structure, tensors)
    manifest = Manifest(step, records)
    write_file(path / MANIFEST, [dump_manifest(manifest)])
    sync_directory(path)
    return manifest


def read_archive(path: Path, components: Iterable[str] | None = None, optional: Iterable[str] = ()) -> Checkpoint:
    """The checkpoint at `path`, verified as far as it is read.

    Args:
        path: directory of one checkpoint.
        components: which components to read; None reads all. Of the others, only presence and size
            are checked.
        optional: components to read besides, where it has them.

    Raises:
        DamagedCheckpointError: it is not what was saved.
        CheckpointError: it cannot be read, or was written by a newer Rein.
        ValueError: it lacks one of `components`.
    """
    with _open_directory(path) as directory:
        manifest = _read_manifest(directory, path)
        wanted = list(manifest.components) if components is None else list(components)
        wanted += [name for name in optional if name in manifest.components]
        for name in wanted:
            if name not in manifest.components:
                raise ValueError(f"{path} has no component {name!r}; it has {sorted(manifest.components)}")
        states = {name: _read_component(directory, path, name, manifest.components[name]) for name in wanted}
    return Checkpoint(manifest.step, states, path)


def read_manifest(path: Path) -> Manifest:
    """The manifest of the checkpoint at `path`, whose files have the right names and sizes."""
    with _open_directory(path) as directory:
        return _read_manifest(directory, path)


def verify_archive(path: Path) -> Manifest:
    """Reads the checkpoint at `path` completely and gives its manifest; errors as `read_archive`."""
    with _open_directory(path) as directory:
        manifest = _read_manifest(directory, path)
        for name, record in manifest.components.items():
            _read_component(directory, path, name, record)
    return manifest


@contextmanager
def _open_directory(path: Path) -> Iterator[int]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        yield descriptor
    except OSError as error:
        raise _unreadable(path, error) from error
    finally:
        os.close(descriptor)


def _unreadable(path: Path, error: OSError) -> CheckpointError:
    if error.errno in (ENOTDIR, ELOOP):
        return DamagedCheckpointError(
            f"{path} is not a directory of safetensors and JSON files; other files (such as pickles "
            "made by torch.save) can run code when they are read and are refused"
        )
    if error.errno in (ENOENT, EIO):
        return DamagedCheckpointError(f"{path} cannot be read: {error}")
    return CheckpointError(f"{path} cannot be read: {error}. Fix that, or name another checkpoint")


def _read_manifest(directory: int, path: Path) -> Manifest:
    what = str(path / MANIFEST)
    with _open_file(directory, MANIFEST, path) as (descriptor, size):
        if size > MAX_MANIFEST_BYTES:
            raise DamagedCheckpointError(f"{what} is not a manifest: it has {size} bytes")
        text = bytes(_read(descriptor, size, what))
    manifest = parse_manifest(text, what)
    _check_listing(directory, path, manifest.files())
    prefix, _, number = path.name.partition("-")
    if prefix == "ckpt" and number.isdecimal() and int(number) != manifest.step:
        raise DamagedCheckpointError(f"{path} was saved as step {manifest.step}")
    return manifest


def _check_listing(directory: int, path: Path, files: Mapping[str, FileRecord]) -> None:
    present = set(os.listdir(directory)) - {MANIFEST}
    for problem, names in (
        ("lacks", files.keys() - present),
        ("has unexpected", present - files.keys()),
    ):
        if names:
            raise DamagedCheckpointError(f"{path} {problem} {', '.join(sorted(names)[:5])!r}")
    for name, record in files.items():
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode):
            raise DamagedCheckpointError(f"{path / name} is not a regular file")
        if status.st_size != record.size:
            raise DamagedCheckpointError(
                f"{path / name} has {status.st_size} bytes, not the {record.size} that were saved"
            )


@contextmanager
def _open_file(directory: int, name: str, path: Path) -> Iterator[tuple[int, int]]:
    # Without O_NONBLOCK, a pipe put in place of the file would block for ever.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(name, flags, dir_fd=directory)
    except OSError as error:
        if error.errno == ELOOP:
            raise DamagedCheckpointError(f"{path / name} is a symbolic link") from error
        if error.errno == ENOENT:
            raise DamagedCheckpointError(f"{path} lacks {name!r}") from error
        raise
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise DamagedCheckpointError(f"{path / name} is not a regular file")
        yield descriptor, status.st_size
    finally:
        os.close(descriptor)


def _read(descriptor: int, size: int, what: str) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    done = 0
    while done < size:
        count = os.readv(descriptor, [view[done:]])
        if count == 0:
            raise DamagedCheckpointError(f"{what} ends after {done} of {size} bytes")
        done += count
    return data


def _verified(directory: int, path: Path, name: str, record: FileRecord) -> Source:
    what = str(path / name)
    with _open_file(directory, name, path) as (descriptor, size):
        if size != record.size:
            raise DamagedCheckpointError(f"{what} has {size} bytes, not the {record.size} that were saved")
        source: Source
        if size > MAP_BYTES:
            # Private: whoever writes into a mapped tensor never changes the file.
            source = memoryview(mmap.mmap(descriptor, size, access=mmap.ACCESS_COPY))
        else:
            source = _read(descriptor, size, what)
    if hashlib.sha256(source).hexdigest() != record.sha256:
        raise DamagedCheckpointError(f"{what} was damaged or edited: its SHA-256 does not match")
    return source


def _read_component(directory: int, path: Path, name: str, record: ComponentRecord) -> Any:
    what = str(path / structure_file(name))
    text = _verified(directory, path, structure_file(name), record.structure)
    node = strict_json.load(text, what)
    tensors = None
    if record.tensors is not None:
        source = _verified(directory, path, tensor_file(name), record.tensors)
        tensors = TensorFile(source, str(path / tensor_file(name)))
    return decode_component(node, tensors, what)
