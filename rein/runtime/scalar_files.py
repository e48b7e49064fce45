"""Reading the curves that a `JsonlWriter` recorded: whole files at once, or what was appended since the last look."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

SCALARS_FILE = "scalars.jsonl"
MOST_BYTES_READ = 256 * 2**20
_CHUNK_BYTES = 2**17  # What is made of more lines does not fit into a processor's cache.
_MOST_BYTES_OF_A_LINE = 4 * 2**20
_MIXER = np.uint64(2654435761)  # Spreads the steps that are kept evenly, whatever the interval between them.
_NUMBER = rb"-?(?:0|[1-9][0-9]{0,17}+)(?:[.eE][-+.0-9eE]*+)?"  # `float` refuses what is none.
_USUAL_LINE = re.compile(
    rb'^\{"step": (0|[1-9][0-9]{0,17}+), "name": "([^"\\\x00-\x1f]*+)", '
    rb'"value": (' + _NUMBER + rb'|"nan"|"inf"|"-inf"), "time": (' + _NUMBER + rb")\}\n",
    re.MULTILINE,
)
"""What `JsonlWriter` writes for nearly every name; other lines, damaged ones among them, are left to the JSON parser."""


class ScalarSeries(NamedTuple):
    """One curve.

    Attributes:
        step: [N] int64, global counters in the order of recording.
        value: [N] float64.
        time: [N] float64, seconds since the epoch.
    """

    step: np.ndarray
    value: np.ndarray
    time: np.ndarray


def read_scalars(path: str | Path) -> dict[str, ScalarSeries]:
    """Returns the curves that a `JsonlWriter` recorded, by name, without those voided by resuming.

    Lines that a crash tore are skipped. Of a file of more than `MOST_BYTES_READ` only a share of the steps is kept.

    Args:
        path: of the file, or of the directory that holds `scalars.jsonl`.
    """
    path = Path(path)
    return ScalarFile(path / SCALARS_FILE if path.is_dir() else path).read()


class ScalarFile:
    """Follows a file that grows: each `read` parses only what was appended since the one before."""

    def __init__(self, path: str | Path) -> None:
        """Names the file; nothing is read yet.

        Args:
            path: of the file.
        """
        self._path = Path(path)
        self._forget()

    def _forget(self) -> None:
        self._identity: tuple[int, int] | None = None
        self._offset = 0
        self._one_of = 1
        self._series: dict[str, ScalarSeries] = {}

    def read(self) -> dict[str, ScalarSeries]:
        """All curves so far, by name; see `read_scalars`."""
        if not self._path.is_file():
            raise ValueError(f"{self._path} is no regular file: it is not read")
        facts = self._path.stat()
        identity, one_of = (facts.st_dev, facts.st_ino), max(1, -(-facts.st_size // MOST_BYTES_READ))
        if identity != self._identity or facts.st_size < self._offset or one_of != self._one_of:
            self._forget()
            self._identity, self._one_of = identity, one_of
        if facts.st_size > self._offset:
            pieces: dict[str, list[ScalarSeries]] = {name: [one] for name, one in self._series.items()}
            for chunk in self._chunks():
                self._add(chunk, pieces)
            self._series = {name: _joined(parts) for name, parts in pieces.items()}
        return dict(self._series)

    @property
    def path(self) -> Path:
        """Of the file."""
        return self._path

    @property
    def bytes_left(self) -> int:
        """Bytes that were not read yet; 0 if the file is not there."""
        try:
            return max(0, self._path.stat().st_size - self._offset)
        except OSError:
            return 0

    def where(self) -> tuple[tuple[int, int] | None, int, int]:
        """How far it has been read, for `take_over`."""
        return self._identity, self._offset, self._one_of

    def take_over(self, where: tuple[tuple[int, int] | None, int, int], series: dict[str, ScalarSeries]) -> None:
        """Goes on where another process has read to.

        Args:
            where: what its `where` gave.
            series: what it has read.
        """
        (self._identity, self._offset, self._one_of), self._series = where, series

    def _chunks(self) -> Iterator[bytes]:
        """Whole lines that were not read yet, many at a time; a last line without its end waits for it."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            while chunk := file.read(_CHUNK_BYTES):
                chunk += file.readline(_MOST_BYTES_OF_A_LINE)
                end = chunk.rfind(b"\n") + 1
                if not end:
                    return
                self._offset += end
                if end < len(chunk):
                    file.seek(self._offset)
                yield chunk[:end]

    def _add(self, chunk: bytes, pieces: dict[str, list[ScalarSeries]]) -> None:
        found = _USUAL_LINE.findall(chunk)
        if len(found) == chunk.count(b"\n"):
            step, raw_names, value, when = zip(*found, strict=True)
            try:
                names = {raw: raw.decode() for raw in set(raw_names)}
                rows = (list(map(int, step)), _floats(value), _floats(when))
            except ValueError:
                pass
            else:
                self._store([names[raw] for raw in raw_names], rows, pieces)
                return
        self._add_line_by_line(chunk, pieces)

    def _add_line_by_line(self, chunk: bytes, pieces: dict[str, list[ScalarSeries]]) -> None:
        names: list[str] = []
        rows: tuple[list[int], list[float], list[float]] = ([], [], [])
        for entry in _entries(chunk):
            if "resume_step" in entry:
                self._store(names, rows, pieces)
                names, rows = [], ([], [], [])
                _void_after(entry["resume_step"], pieces)
            else:
                names.append(entry["name"])
                rows[0].append(entry["step"])
                rows[1].append(float(entry["value"]))
                rows[2].append(entry["time"])
        self._store(names, rows, pieces)

    def _store(
        self,
        names: list[str],
        rows: tuple[list[int], list[float], list[float]],
        pieces: dict[str, list[ScalarSeries]],
    ) -> None:
        numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
        codes = np.fromiter(map(numbers.__getitem__, names), np.int64, len(names))
        step, value, when = np.array(rows[0], np.int64), np.array(rows[1], np.float64), np.array(rows[2], np.float64)
        if self._one_of > 1:
            kept = (step.astype(np.uint64) * _MIXER % np.uint64(2**32) >> np.uint64(16)) % np.uint64(self._one_of) == 0
            codes, step, value, when = codes[kept], step[kept], value[kept], when[kept]
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(len(numbers)), side="right")
        start = 0
        for name, end in zip(numbers, ends.tolist(), strict=True):
            if end > start:
                chosen = order[start:end]
                pieces.setdefault(name, []).append(ScalarSeries(step[chosen], value[chosen], when[chosen]))
            start = end


def _floats(texts: tuple[bytes, ...]) -> list[float]:
    """Numbers from texts, of which those that are not finite are in quotes."""
    try:
        return list(map(float, texts))
    except ValueError:
        return [float(text.strip(b'"')) for text in texts]


def _joined(parts: list[ScalarSeries]) -> ScalarSeries:
    return (
        parts[0]
        if len(parts) == 1
        else ScalarSeries(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    )


def _void_after(step: int, pieces: dict[str, list[ScalarSeries]]) -> None:
    """Drops what was recorded after a step from which the run was resumed."""
    for name in list(pieces):
        whole = _joined(pieces[name])
        kept = whole.step <= step
        if kept.any():
            pieces[name] = [ScalarSeries(*(column[kept] for column in whole))]
        else:
            del pieces[name]


def _entries(chunk: bytes) -> Iterator[dict[str, Any]]:
    for line in chunk.split(b"\n"):
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict) and _is_record(entry):
            yield entry


def _is_record(entry: dict[str, Any]) -> bool:
    if "resume_step" in entry:
        return isinstance(entry["resume_step"], int)
    kinds = {"step": int, "name": str, "value": int | float | str, "time": int | float}
    if not all(isinstance(entry.get(key), kind) for key, kind in kinds.items()) or abs(entry["step"]) >= 2**63:
        return False
    return not isinstance(entry["value"], str) or entry["value"] in ("nan", "inf", "-inf")
