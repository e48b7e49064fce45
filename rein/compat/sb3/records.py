"""What a model reports while it trains: `logger.record(name, value)`, then `logger.dump(step)` to all outputs."""

import csv
import json
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol, TextIO

import numpy as np

from rein.runtime.writers import TensorBoardWriter

DEBUG, INFO, WARN, ERROR, DISABLED = 10, 20, 30, 40, 50


class Output(Protocol):
    """Where records go."""

    kind: str

    def write(self, values: Mapping[str, Any], step: int) -> None:
        """Takes in the values of a step."""

    def close(self) -> None:
        """Ends the output."""


class HumanOutputFormat:
    """Tables, on a terminal or in a file."""

    def __init__(self, file: TextIO, kind: str = "stdout") -> None:
        """Keeps the file."""
        self._file, self.kind = file, kind

    def write(self, values: Mapping[str, Any], step: int) -> None:
        """Prints a table with a section for each prefix of the names."""
        lines: list[tuple[str, str]] = []
        section = ""
        for name, value in sorted(values.items()):
            prefix, _, rest = name.rpartition("/")
            if prefix and prefix != section:
                section = prefix
                lines.append((f"{prefix}/", ""))
            lines.append((f"   {rest}" if prefix else rest, _text(value)))
        width, values_width = (max(len(line[i]) for line in lines) for i in (0, 1))
        rule = "-" * (width + values_width + 7)
        body = "\n".join(f"| {name:<{width}} | {text:<{values_width}} |" for name, text in lines)
        self._file.write(f"{rule}\n{body}\n{rule}\n")
        self._file.flush()

    def close(self) -> None:
        """Closes a file."""
        if self._file is not sys.stdout:
            self._file.close()


def _text(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float | np.floating) else str(value)


class CSVOutputFormat:
    """A CSV file; a name that comes later becomes a further column, and the file is written anew."""

    kind = "csv"

    def __init__(self, filename: str | os.PathLike[str]) -> None:
        """Names the file."""
        self._path = Path(filename)
        self._rows: list[dict[str, Any]] = []
        self._columns: list[str] = []

    def write(self, values: Mapping[str, Any], step: int) -> None:
        """Adds a line."""
        new = [name for name in values if name not in self._columns]
        self._columns += new
        self._rows.append(dict(values))
        with self._path.open("w" if new else "a", newline="") as file:
            writer = csv.DictWriter(file, self._columns)
            if new:
                writer.writeheader()
            writer.writerows(self._rows if new else [values])

    def close(self) -> None:
        """Nothing is open."""


class JSONOutputFormat:
    """A JSON object a line."""

    kind = "json"

    def __init__(self, filename: str | os.PathLike[str]) -> None:
        """Opens the file."""
        self._file = open(filename, "w")  # noqa: SIM115

    def write(self, values: Mapping[str, Any], step: int) -> None:
        """Adds a line."""
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in values.items()}
        self._file.write(json.dumps(plain, default=str) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class TensorBoardOutputFormat:
    """TensorBoard events."""

    kind = "tensorboard"

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Makes the folder."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        self.writer = TensorBoardWriter(Path(folder))

    def write(self, values: Mapping[str, Any], step: int) -> None:
        """Writes the numbers."""
        for name, value in values.items():
            if isinstance(value, int | float | np.number):
                self.writer.scalar(name, float(value), step)
        self.writer.flush()

    def close(self) -> None:
        """Ends the events."""
        self.writer.close()


class Logger:
    """Gathers values by name until they are written."""

    def __init__(self, folder: str | None, output_formats: list[Output]) -> None:
        """Keeps the outputs.

        Args:
            folder: where they write.
            output_formats: see `configure`.
        """
        self.dir = folder
        self.output_formats = output_formats
        self.level = INFO
        self.name_to_value: dict[str, Any] = {}
        self.name_to_count: dict[str, int] = {}
        self._excluded: dict[str, tuple[str, ...]] = {}

    def record(self, key: str, value: Any, exclude: str | Iterable[str] | None = None) -> None:
        """Keeps a value for the next `dump`; the last one counts.

        Args:
            key: its name.
            value: a number or text.
            exclude: kinds of outputs that shall not have it.
        """
        self.name_to_value[key] = value
        self._excluded[key] = (exclude,) if isinstance(exclude, str) else tuple(exclude or ())

    def record_mean(self, key: str, value: float | None, exclude: str | Iterable[str] | None = None) -> None:
        """Keeps the mean of all values until the next `dump`."""
        if value is None:
            self.name_to_value[key] = None
            return
        count = self.name_to_count.get(key, 0)
        before = float(self.name_to_value.get(key, 0.0) or 0.0)
        self.record(key, (before * count + value) / (count + 1), exclude)
        self.name_to_count[key] = count + 1

    def dump(self, step: int = 0) -> None:
        """Writes what was recorded, and forgets it."""
        for output in self.output_formats:
            values = {
                name: value
                for name, value in self.name_to_value.items()
                if output.kind not in self._excluded.get(name, ()) and value is not None
            }
            if values:
                output.write(values, step)
        self.name_to_value.clear()
        self.name_to_count.clear()
        self._excluded.clear()

    def log(self, *args: Any, level: int = INFO) -> None:
        """Prints."""
        if self.level <= level:
            print(*args)

    def info(self, *args: Any) -> None:
        """Prints."""
        self.log(*args)

    def warn(self, *args: Any) -> None:
        """Prints."""
        self.log(*args, level=WARN)

    def set_level(self, level: int) -> None:
        """From which level on to print."""
        self.level = level

    def get_dir(self) -> str | None:
        """Where the outputs write."""
        return self.dir

    def close(self) -> None:
        """Ends the outputs."""
        for output in self.output_formats:
            output.close()


def configure(folder: str | None = None, format_strings: list[str] | None = None) -> Logger:
    """A logger.

    Args:
        folder: where it writes; None is a new temporary one.
        format_strings: of "stdout", "log", "csv", "json" and "tensorboard"; None is the first three.
    """
    path = Path(folder or tempfile.mkdtemp(prefix="rein-sb3-"))
    path.mkdir(parents=True, exist_ok=True)
    makers: dict[str, Any] = {
        "stdout": lambda: HumanOutputFormat(sys.stdout),
        "log": lambda: HumanOutputFormat((path / "log.txt").open("w"), "log"),
        "csv": lambda: CSVOutputFormat(path / "progress.csv"),
        "json": lambda: JSONOutputFormat(path / "progress.json"),
        "tensorboard": lambda: TensorBoardOutputFormat(path),
    }
    wanted = format_strings if format_strings is not None else ["stdout", "log", "csv"]
    for name in wanted:
        if name not in makers:
            raise ValueError(f"configure: {name!r} is no output: choose of {', '.join(makers)}")
    return Logger(str(path), [makers[name]() for name in wanted])


def learn_logger(verbose: int, tensorboard_log: str | None, tb_log_name: str, continues: bool) -> Logger:
    """The logger of a call of `learn`: tables if it is verbose, and events in the next numbered folder.

    Args:
        verbose: 1 or more prints.
        tensorboard_log: where folders of events are; None writes none.
        tb_log_name: begin of the folder's name.
        continues: whether to go on in the newest folder.
    """
    kinds, folder = (["stdout"] if verbose >= 1 else []), None
    if tensorboard_log is not None:
        numbers = [
            int(one.name.rpartition("_")[2])
            for one in Path(tensorboard_log).glob(f"{tb_log_name}_*")
            if one.name.rpartition("_")[2].isdigit()
        ]
        number = max(numbers, default=0) + (0 if continues and numbers else 1)
        folder = os.path.join(tensorboard_log, f"{tb_log_name}_{number}")
        kinds.append("tensorboard")
        if verbose >= 1:
            print(f"Logging to {folder}")
    return configure(folder, kinds) if kinds else Logger(None, [])
