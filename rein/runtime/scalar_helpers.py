"""Files of curves read by other processes: parsing text keeps one processor busy, and machines have several.

A helper is a bare interpreter that imports little more than numpy, starts in a tenth of a second, and is told paths:

    with Helper() as helper:
        helper.read(file)
"""

import contextlib
import json
import os
import subprocess
import sys
from typing import IO, Any, Self

import numpy as np

from rein.runtime.scalar_files import ScalarFile, ScalarSeries

_COLUMNS = (np.dtype(np.int64), np.dtype(np.float64), np.dtype(np.float64))
_PROGRAM = "from rein.runtime.scalar_helpers import serve; serve()"


class HelperError(RuntimeError):
    """A helper cannot read a file, or is no more."""


class Helper:
    """Another process that reads files of curves."""

    def __init__(self) -> None:
        """Starts it; it ends when it is closed, or with this process."""
        places = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=places,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def read(self, file: ScalarFile) -> None:
        """Has a file read that was not read yet.

        Args:
            file: gets what was read.

        Raises:
            HelperError: the file cannot be read there.
        """
        to, back = self._process.stdin, self._process.stdout
        assert to is not None
        assert back is not None
        try:
            to.write(json.dumps(os.fspath(file.path.absolute())).encode() + b"\n")
            to.flush()
            head = json.loads(back.readline() or b"null")
            if not isinstance(head, dict):
                raise HelperError(f"{file.path} was not read by a helper")
            series = {name: _receive(back, length) for name, length in head["lengths"].items()}
        except (OSError, ValueError) as error:
            raise HelperError(f"the helper that was to read {file.path} is no more") from error
        identity, offset, one_of = head["where"]
        file.take_over((tuple(identity), offset, one_of), series)

    def close(self) -> None:
        """Ends the process."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(OSError):  # It has ended with something unsaid.
                pipe.close()
        self._process.terminate()
        self._process.wait()


def serve() -> None:
    """What a helper does: reads the files of the paths that it is told, until there are no more."""
    out = sys.stdout.buffer
    for line in sys.stdin.buffer:
        file = ScalarFile(json.loads(line))
        try:
            series = file.read()
        except (OSError, ValueError):
            out.write(b"null\n")
            out.flush()
            continue
        lengths = {name: len(one.step) for name, one in series.items()}
        out.write(json.dumps({"lengths": lengths, "where": file.where()}).encode() + b"\n")
        for one in series.values():
            for column, kind in zip(one, _COLUMNS, strict=True):
                out.write(np.ascontiguousarray(column, kind).tobytes())
        out.flush()


def _receive(back: IO[bytes], length: int) -> ScalarSeries:
    columns: list[Any] = []
    for kind in _COLUMNS:
        content = back.read(length * kind.itemsize)
        if len(content) != length * kind.itemsize:
            raise ValueError("the rest is missing")
        columns.append(np.frombuffer(content, kind))
    return ScalarSeries(*columns)
