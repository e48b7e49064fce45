"""What is known of every entry of the zoo, for lists: nothing is run as long as the confs say what they said."""

import json
from pathlib import Path
from typing import Any

from rein.zoo import ZooEntry, task_entries
from rein.zoo.conf_texts import text_hash
from rein.zoo.families import algorithm_name, family_of

_HERE = Path(__file__).parent
_HOMES = (_HERE / "results", _HERE.parents[1] / "docs" / "results")
"""Where the records are: in an installed package, into which the build copies them (see setup.py), and in a checkout."""


def list_zoo() -> list[dict[str, Any]]:
    """Facts of each entry in plain values.

    `typed` is what `--algorithm` takes, `family` a key of `FAMILIES`, `record` the facts of the verification, or None.
    """
    return [
        {**entry.to_json(), "typed": algorithm_name(entry), "family": family_of(entry), "record": _record_facts(entry)}
        for entry in task_entries().values()
    ]


def find_records() -> Path | None:
    """The folder of the records, if this installation has them."""
    return next((home for home in _HOMES if home.is_dir()), None)


def _record_facts(entry: ZooEntry) -> dict[str, Any] | None:
    folder = find_records()
    path = None if folder is None else folder / f"{entry.name}.json"
    if path is None or not path.exists():
        return None
    record = json.loads(path.read_text(encoding="utf-8"))
    seconds = [seed["seconds"] for seed in record["seeds"]]
    return {
        "score": record["score"],
        "met": record["met"],
        "seeds": [seed["seed"] for seed in record["seeds"]],
        "minutes": round(sum(seconds) / len(seconds) / 60, 2),
        "date": record.get("date"),
        "version": record["version"],
        "is_stale": record.get("conf_text") != text_hash(entry.path) and _has_changed(record, entry),
    }


def _has_changed(record: dict[str, Any], entry: ZooEntry) -> bool:
    """Whether a conf whose text has changed trains anything else; runs it, which needs everything that training does."""
    from rein.zoo.records import is_stale

    return is_stale(record, entry)
