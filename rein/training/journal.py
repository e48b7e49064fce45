"""What a run notes of itself while it goes on: warnings and faults in `log.txt`, where its time goes in `timing.json`."""

import json
import logging
import time
import traceback
from types import TracebackType
from typing import Self

from rein.config.plain_files import replace_file
from rein.runtime.timers import Timers
from rein.training.run_directory import RunDirectory

_MOST_BYTES = 4 * 2**20
_SECONDS_BETWEEN = 10.0
_logger = logging.getLogger("rein")


class Journal:
    """Keeps `log.txt` and `timing.json` of a run while its block lasts; a full disk costs the notes, never the run."""

    def __init__(self, directory: RunDirectory, timers: Timers) -> None:
        """Prepares a journal.

        Args:
            directory: of the run.
            timers: of the run; they begin anew when it is resumed, and so does what is written about them.
        """
        self._directory, self._timers = directory, timers
        self._handler = _LogFile(directory)
        self._noted_at = self._started = time.monotonic()

    def __enter__(self) -> Self:
        """Begins to log."""
        _logger.addHandler(self._handler)
        return self

    def tick(self) -> None:
        """Brings `timing.json` up to date, if that was long ago."""
        if time.monotonic() - self._noted_at >= _SECONDS_BETWEEN:
            self._note_times()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Notes how the run ended, and ends the log."""
        if error is not None and not isinstance(error, KeyboardInterrupt):
            self._handler.write("ERROR", "training failed\n" + "".join(traceback.format_exception(error)))
        self._note_times()
        _logger.removeHandler(self._handler)

    def _note_times(self) -> None:
        self._noted_at = time.monotonic()
        sections = {path: stats._asdict() for path, stats in self._timers.stats().items()}
        content = {"seconds": self._noted_at - self._started, "sections": sections}
        try:
            replace_file(self._directory.timing, json.dumps(content).encode())
        except OSError:
            return


class _LogFile(logging.Handler):
    """Appends records to the log of a run, up to a size."""

    def __init__(self, directory: RunDirectory) -> None:
        super().__init__()
        self._path = directory.log

    def emit(self, record: logging.LogRecord) -> None:
        """Writes a line, and to the terminal what would have gone there without this handler."""
        if not logging.getLogger().handlers and logging.lastResort and record.levelno >= logging.lastResort.level:
            logging.lastResort.handle(record)
        self.write(record.levelname, f"{record.name}: {record.getMessage()}")

    def write(self, level: str, text: str) -> None:
        """Appends a note; lines after its first are indented."""
        line = f"{time.strftime('%Y-%m-%dT%H:%M:%S')} {level} " + text.rstrip().replace("\n", "\n  ") + "\n"
        try:
            with self._path.open("a", encoding="utf-8", errors="backslashreplace") as file:
                if file.tell() < _MOST_BYTES:
                    file.write(line)
        except OSError:
            return
