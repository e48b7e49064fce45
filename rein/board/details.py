"""What the page shows of one run: a row of the table, and everything else."""

import os
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

from rein.board.evidence import entry_of
from rein.board.settings import read_settings, short_name
from rein.board.shelf import ODD, ShelvedRun, is_inside
from rein.training.report import again
from rein.training.statistics_of_runs import TRAINING_RETURN, label_from

_ENV_STEPS = "Metrics/EnvironmentSteps"
_LOG_BYTES = 64 * 2**10
_MOST_FILES = 200
MEDIA_TYPES = {".mp4": "video/mp4", ".gif": "image/gif", ".png": "image/png", ".svg": "image/svg+xml"}
_FOLDERS = ("videos", "plans", "pictures")
_CHARTS = "charts"
"""Stands for the run itself, in which `rein evaluate` leaves charts."""
_CHART_NAME = re.compile(r"evaluation-[\w.-]+\.svg")
_LOG_LINE = re.compile(r"^\S+ (WARNING|ERROR|CRITICAL) ")


class Media(NamedTuple):
    """A file that the page may show."""

    path: Path
    type: str


def summarize(run: ShelvedRun) -> dict[str, Any]:
    """A row of the table of runs; one that cannot be read says so."""
    try:
        return _summarize(run, run.record())
    except ODD as error:
        return {"id": run.id, "place": run.place, "name": run.place, "status": "damaged", "error": str(error)}


def _summarize(run: ShelvedRun, record: dict[str, Any]) -> dict[str, Any]:
    env_steps = record.get("env_steps")
    if env_steps is None or record.get("status") == "running":
        counted = run.series().get(_ENV_STEPS)
        env_steps = env_steps if counted is None else int(counted.value[-1])
    budget = record.get("extended_to") or record.get("num_env_steps")
    row = {
        "id": run.id,
        "place": run.place,
        "name": _text(record.get("name")) or run.place,
        "label": label_from(record, run.directory.path),
        "status": run.directory.status(record),
        "changed": max(run.stamp()[::2]) / 1e9,
        "env_steps": env_steps,
        "fraction": _fraction(record, env_steps, budget),
        **_score(run),
    }
    keys = (
        "seed",
        "algorithm",
        "env",
        "started",
        "seconds",
        "iterations",
        "parameters",
        "skipped_updates",
        "stop_reason",
        "error",
    )
    return row | {key: record[key] for key in keys if record.get(key) is not None}


def _fraction(record: dict[str, Any], env_steps: Any, budget: Any) -> float | None:
    if record.get("status") == "finished":
        return 1.0
    done, whole = (env_steps, budget) if budget else (record.get("iterations"), record.get("num_iterations"))
    return (
        min(1.0, done / whole) if isinstance(done, int | float) and isinstance(whole, int | float) and whole else None
    )


def _score(run: ShelvedRun) -> dict[str, Any]:
    """The last evaluation, or else the last training return."""
    evaluations = [one for one in run.evaluations() if "mean_return" in one or "numbers" in one]
    if evaluations and "mean_return" in evaluations[-1]:
        last = evaluations[-1]
        kind = "held-out evaluation" if last.get("held_out") else "evaluation"
        return {"score": last["mean_return"], "interval": last.get("ci95"), "score_of": kind}
    if evaluations:
        numbers = evaluations[-1]["numbers"]
        name, value = next(iter(numbers.items()), ("", None)) if isinstance(numbers, dict) else ("", None)
        return {"score": value, "score_of": str(name)}
    series = run.series().get(TRAINING_RETURN)
    return {} if series is None else {"score": float(series.value[-1]), "score_of": "training return"}


def describe(run: ShelvedRun) -> dict[str, Any]:
    """Everything about a run but its curves, ready for JSON.

    Raises:
        RunDirectoryError: its record is damaged.
    """
    record, settings = run.record(), read_settings(run)
    entry = entry_of(run)
    return {
        **summarize(run),
        "record": record,
        "path": str(run.directory.path),
        "again": again(run.directory, record),
        "settings": [{"name": name, "short": short_name(name), "value": value} for name, value in settings.items()],
        "evaluations": run.evaluations()[-200:],
        "agent": run.agent(),
        "timing": run.timing(),
        "log": read_log(run),
        "media": list_media(run),
        "zoo": None if entry is None else entry.name,
    }


def read_log(run: ShelvedRun) -> dict[str, Any]:
    """The end of the log, and how many warnings and errors are in it."""
    path = run.directory.log
    if not (path.is_file() and is_inside(path, run.directory.path)):
        return {"text": "", "faults": 0, "is_cut": False}
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _LOG_BYTES))
        text = file.read(_LOG_BYTES).decode(errors="replace")
    if size > _LOG_BYTES:
        text = text.partition("\n")[2]
    faults = sum(bool(_LOG_LINE.match(line)) for line in text.splitlines())
    return {"text": text, "faults": faults, "is_cut": size > _LOG_BYTES}


def list_media(run: ShelvedRun) -> list[dict[str, Any]]:
    """Files that the page may show, newest first."""
    found: list[dict[str, Any]] = []
    for folder in (*_FOLDERS, _CHARTS):
        path = run.directory.path if folder == _CHARTS else run.directory.path / folder
        try:
            names = [one.name for one in os.scandir(path)]
        except OSError:
            continue
        for name in names:
            media = find_media(run, folder, name)
            if media is not None:
                facts = media.path.stat()
                found.append({"folder": folder, "name": name, "bytes": facts.st_size, "time": facts.st_mtime})
    return sorted(found, key=lambda one: one["time"], reverse=True)[:_MOST_FILES]


def find_media(run: ShelvedRun, folder: str, name: str) -> Media | None:
    """A file that the page may show; None for any other, links out of the run among them.

    Args:
        run: that it belongs to.
        folder: of the run.
        name: of the file.
    """
    if folder not in (*_FOLDERS, _CHARTS) or name != os.path.basename(name) or "\0" in name:
        return None
    kind = MEDIA_TYPES.get(Path(name).suffix.lower())
    if kind is None or (folder == _CHARTS and not _CHART_NAME.fullmatch(name)):
        return None
    root = run.directory.path
    path = root / name if folder == _CHARTS else root / folder / name
    return Media(path, kind) if is_inside(path, root) and path.is_file() else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else shlex.quote(str(value))
