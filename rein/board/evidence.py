"""The zoo's evidence: what every entry was measured at, seed by seed, against its bar."""

import json
import logging
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

from rein.board.shelf import ODD, ShelvedRun
from rein.training.statistics_of_runs import RETURNS
from rein.training.svg_chart import short_number
from rein.zoo import ZooEntry, task_entries
from rein.zoo.bars import bar_text, score_writer
from rein.zoo.listing import find_records, list_zoo

logger = logging.getLogger(__name__)
_SHARES = ("success_rate", "test_acc")


def list_evidence() -> list[dict[str, Any]]:
    """Facts of each entry of the zoo, with those of its record, ready for JSON."""
    return [
        {**entry, "bar_text": bar_text(entry, score_writer(entry)), "path": Path(entry["path"]).name}
        for entry in _listing()
    ]


@cache
def _listing() -> list[dict[str, Any]]:
    """Once in a session: entries whose text has changed must be built to know whether their records still hold."""
    return list_zoo()


def read_evidence(name: str) -> dict[str, Any]:
    """The record of an entry with the curves of its seeds, ready for JSON.

    Raises:
        KeyError: there is no entry of that name.
    """
    entry = task_entries()[name]
    facts = {**entry.to_json(), "bar_text": bar_text(entry.facts, score_writer(entry.facts)), "path": entry.path.name}
    facts["bars"] = _bars(entry)
    facts["conf"] = entry.path.read_text(encoding="utf-8")
    folder = find_records()
    path = None if folder is None else folder / f"{name}.json"
    if path is None or not path.is_file():
        return {**facts, "record": None}
    record = json.loads(path.read_text(encoding="utf-8"))
    record.pop("settings", None)
    measure = record.get("measure", "mean_return")
    for seed in record["seeds"]:
        seed["score"] = seed.get(measure)
        seed["x"], seed["y"] = ([point[0] for point in seed["curve"]], [point[1] for point in seed["curve"]])
        del seed["curve"]
    record["is_share"] = measure in _SHARES
    record["again"] = f"rein verify {name} --seeds {len(record['seeds'])}"
    return {**facts, "record": record}


def bars_of(runs: Iterable[ShelvedRun], metric: str) -> list[dict[str, Any]]:
    """Bars of the entries of the zoo that the runs are, for a chart of returns."""
    if metric not in RETURNS:
        return []
    entries = {entry.name: entry for run in runs if (entry := entry_of(run)) is not None}
    return [
        {"value": bar["value"], "label": bar["label"] if len(entries) == 1 else f"{bar['label']} of {name}"}
        for name, entry in entries.items()
        for bar in _bars(entry)
    ]


def entry_of(run: ShelvedRun) -> ZooEntry | None:
    """The entry of the zoo that a run trains, or None."""
    try:
        record = run.record()
    except ODD:
        return None
    entry = task_entries().get(str(record.get("name")))
    return entry if entry is not None and record.get("env") in (None, entry.env) else None


def _bars(entry: ZooEntry) -> list[dict[str, Any]]:
    if entry.facts.get("measure", "mean_return") != "mean_return":
        return []
    found = (("bar", "bar"), ("at_most", "at most"))
    return [
        {"value": float(entry.facts[key]), "label": f"{word} {short_number(entry.facts[key])}"}
        for key, word in found
        if entry.facts.get(key) is not None
    ]
