"""Scalars as a table that spreadsheets read."""

import csv
import os
import time
from pathlib import Path
from typing import IO

from rein.config.plain_files import replace_file
from rein.runtime.writers import SummaryWriter

FILE = "scalars.csv"
HEAD = ["step", "name", "value", "time"]


class CsvWriter(SummaryWriter):
    """Appends scalars to `scalars.csv`: step, name, value, seconds since the epoch."""

    def __init__(self, directory: str | os.PathLike[str], resume_step: int | None = None) -> None:
        """Prepares the file, which the first number makes.

        Args:
            directory: of the file; created if absent.
            resume_step: rows of later steps, and a row that a crash tore, are removed; None removes nothing.
        """
        self._path = Path(directory) / FILE
        self._file: IO[str] | None = None
        if resume_step is not None and self._path.exists():
            _cut(self._path, resume_step)

    def _open(self) -> IO[str]:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        file = self._path.open("a", newline="")
        if file.tell() == 0:
            csv.writer(file).writerow(HEAD)
        return file

    def scalar(self, name: str, value: float, step: int) -> None:  # noqa: D102
        if self._file is None:
            self._file = self._open()
        csv.writer(self._file).writerow([step, name, repr(float(value)), round(time.time(), 3)])

    def flush(self) -> None:  # noqa: D102
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:  # noqa: D102
        if self._file is not None:
            self._file.close()
            self._file = None


def _cut(path: Path, resume_step: int) -> None:
    """Removes the rows after a step."""
    with path.open(newline="") as file:
        lines = file.read().split("\r\n")[:-1]
    kept = [line for line, row in zip(lines, csv.reader(lines), strict=True) if row and _is_kept(row, resume_step)]
    replace_file(path, "".join(f"{line}\r\n" for line in kept).encode())


def _is_kept(row: list[str], resume_step: int) -> bool:
    return row == HEAD or (len(row) == len(HEAD) and row[0].isdigit() and int(row[0]) <= resume_step)
