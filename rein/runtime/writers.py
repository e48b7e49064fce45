"""Where summaries go: TensorBoard event files and plain lines of JSON."""

from __future__ import annotations

import json
import logging
import math
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rein.runtime.scalar_files import SCALARS_FILE

logger = logging.getLogger(__name__)

_MOST_WAITING_BYTES = 16 * 2**20


class SummaryWriter:
    """Receives summaries; this one drops them. A subclass overrides the kinds that it can hold."""

    def scalar(self, name: str, value: float, step: int) -> None:
        """Records one number.

        Args:
            name: full name, scopes joined by "/".
            value: the number, which may be infinite or NaN.
            step: global counter.
        """

    def histogram(self, name: str, values: np.ndarray, step: int) -> None:
        """Records the distribution of some numbers.

        Args:
            name: full name.
            values: of any shape, finite, not empty.
            step: global counter.
        """

    def image(self, name: str, image: np.ndarray, step: int) -> None:
        """Records a picture.

        Args:
            name: full name.
            image: [C, H, W], uint8 or in [0, 1].
            step: global counter.
        """

    def text(self, name: str, text: str, step: int) -> None:
        """Records a text.

        Args:
            name: full name.
            text: Markdown.
            step: global counter.
        """

    def flush(self) -> None:
        """Puts everything recorded so far on disk."""

    def close(self) -> None:
        """Flushes and releases files; a second call does nothing."""


class MultiWriter(SummaryWriter):
    """Hands everything to several writers."""

    def __init__(self, writers: Sequence[SummaryWriter]):
        """Combines writers.

        Args:
            writers: which all receive everything.
        """
        self.writers = tuple(writers)

    def scalar(self, name: str, value: float, step: int) -> None:  # noqa: D102
        for writer in self.writers:
            writer.scalar(name, value, step)

    def histogram(self, name: str, values: np.ndarray, step: int) -> None:  # noqa: D102
        for writer in self.writers:
            writer.histogram(name, values, step)

    def image(self, name: str, image: np.ndarray, step: int) -> None:  # noqa: D102
        for writer in self.writers:
            writer.image(name, image, step)

    def text(self, name: str, text: str, step: int) -> None:  # noqa: D102
        for writer in self.writers:
            writer.text(name, text, step)

    def flush(self) -> None:  # noqa: D102
        for writer in self.writers:
            writer.flush()

    def close(self) -> None:  # noqa: D102
        for writer in self.writers:
            writer.close()


class TensorBoardWriter(SummaryWriter):
    """Writes TensorBoard event files."""

    def __init__(
        self,
        directory: str | Path,
        resume_step: int | None = None,
        flush_seconds: float = 10.0,
        max_queue: int = 10,
    ):
        """Opens a new event file.

        Args:
            directory: of the event files.
            resume_step: TensorBoard hides what earlier files recorded after this step; None hides nothing.
            flush_seconds: put records on disk at least this often.
            max_queue: put records on disk when so many wait.
        """
        try:
            from torch.utils.tensorboard import SummaryWriter as EventWriter
        except ImportError as error:
            raise ImportError("TensorBoard summaries need the package tensorboard: pip install tensorboard") from error
        self._writer: Any = EventWriter(  # type: ignore[no-untyped-call]
            str(directory),
            purge_step=None if resume_step is None else resume_step + 1,
            flush_secs=max(1, round(flush_seconds)),
            max_queue=max_queue,
        )

    def scalar(self, name: str, value: float, step: int) -> None:  # noqa: D102
        self._writer.add_scalar(name, value, step)

    def histogram(self, name: str, values: np.ndarray, step: int) -> None:  # noqa: D102
        self._writer.add_histogram(name, values.reshape(-1), step)

    def image(self, name: str, image: np.ndarray, step: int) -> None:  # noqa: D102
        self._writer.add_image(name, image, step, dataformats="CHW")

    def text(self, name: str, text: str, step: int) -> None:  # noqa: D102
        self._writer.add_text(name, text, step)

    def flush(self) -> None:  # noqa: D102
        self._writer.flush()

    def close(self) -> None:  # noqa: D102
        self._writer.close()


class JsonlWriter(SummaryWriter):
    """Appends scalars as lines of JSON: `{"step": 3, "name": "loss", "value": 0.5, "time": 1.7e9}`.

    The file is only ever appended to, so a crash costs at most the records that still waited and a torn last line,
    which `read_scalars` skips. Resuming appends a marker that voids later steps without deleting them.
    """

    def __init__(
        self,
        directory: str | Path,
        resume_step: int | None = None,
        flush_seconds: float = 10.0,
        max_queue: int = 100,
    ):
        """Opens `scalars.jsonl` for appending.

        Args:
            directory: of the file; created if absent.
            resume_step: void what was recorded after this step; None voids nothing.
            flush_seconds: put records on disk at least this often, while there are any.
            max_queue: put records on disk when so many wait.
        """
        self.path = Path(directory) / SCALARS_FILE
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._flush_seconds = flush_seconds
        self._max_queue = max_queue
        self._lock = threading.RLock()
        self._flushed_at = time.monotonic()
        # A line that a crash tore is ended, so that it spoils no other.
        self._waiting = bytearray(b"\n" if _ends_mid_line(self.path) else b"")
        self._records = 0
        self._has_warned = False
        self._file: int | None = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        if resume_step is not None:
            self._append({"resume_step": resume_step, "time": time.time()})
            self.flush()

    def scalar(self, name: str, value: float, step: int) -> None:  # noqa: D102
        number = value if math.isfinite(value) else str(value)
        self._append({"step": step, "name": name, "value": number, "time": round(time.time(), 3)})

    def flush(self) -> None:  # noqa: D102
        with self._lock:
            self._flushed_at = time.monotonic()
            if not self._waiting:
                return
            if self._file is None:
                raise ValueError(f"{self.path} was closed; summaries after close() would be lost")
            # After an error the rest still waits, so that the next flush goes on where this one stopped.
            while self._waiting:
                del self._waiting[: os.write(self._file, self._waiting)]
            self._records = 0

    def close(self) -> None:  # noqa: D102
        with self._lock:
            if self._file is not None:
                self.flush()
                os.close(self._file)
                self._file = None

    def _append(self, record: dict[str, Any]) -> None:
        line = json.dumps(record, allow_nan=False).encode() + b"\n"
        with self._lock:
            self._waiting += line
            self._records += 1
            late = time.monotonic() - self._flushed_at >= self._flush_seconds
            if late or self._records >= self._max_queue or self._file is None:
                self._flush_if_possible()

    def _flush_if_possible(self) -> None:
        """Flushes; where the disk is full the records wait, as many as memory can spare."""
        try:
            self.flush()
        except OSError as error:
            if not self._has_warned:
                logger.warning(
                    "%s cannot be written (%s): summaries wait in memory", self.path, error.strerror or error
                )
                self._has_warned = True
            excess = len(self._waiting) - _MOST_WAITING_BYTES
            if excess > 0:
                del self._waiting[: self._waiting.index(b"\n", excess) + 1]


def create_summary_writer(
    directory: str | Path,
    resume_step: int | None = None,
    flush_seconds: float = 10.0,
    max_queue: int = 10,
    tensorboard: bool = True,
    sinks: Sequence[SummaryWriter] = (),
) -> SummaryWriter:
    """Returns a writer of `scalars.jsonl`, of further sinks and, if wanted, TensorBoard event files.

    Args:
        directory: of the files.
        resume_step: void what was recorded after this step; None voids nothing.
        flush_seconds: put records on disk at least this often.
        max_queue: put records on disk when so many wait.
        tensorboard: whether to write event files too.
        sinks: which receive everything, too.
    """
    writers: list[SummaryWriter] = [JsonlWriter(directory, resume_step, flush_seconds, max_queue)]
    if tensorboard:
        writers.append(TensorBoardWriter(directory, resume_step, flush_seconds, max_queue))
    writers += sinks
    return writers[0] if len(writers) == 1 else MultiWriter(writers)


def _ends_mid_line(path: Path) -> bool:
    if not path.exists() or path.stat().st_size == 0:
        return False
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
