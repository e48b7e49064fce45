"""A sample of the records, chosen by the date, to be trained again: evidence that they still hold."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

from rein.zoo.bars import is_met

_SPARE = 0.8
"""Share of the time that the recorded minutes may fill: this machine may be slower."""


def choose_sample(zoo: Sequence[Mapping[str, Any]], date: str, number: int, minutes: float) -> list[str]:
    """Names of entries whose record can be made again for one seed in the time.

    Args:
        zoo: what `list_zoo` gives.
        date: any text; the same one chooses the same entries of the same zoo.
        number: how many at most.
        minutes: for all of them, one after the other.
    """
    known = [one for one in zoo if _can_be_sampled(one)]
    random.Random(date).shuffle(known)
    chosen: list[str] = []
    left = minutes * _SPARE
    for one in known:
        if len(chosen) < number and one["record"]["minutes"] <= left / (number - len(chosen)):
            chosen.append(one["name"])
            left -= one["record"]["minutes"]
    return chosen


def _can_be_sampled(entry: Mapping[str, Any]) -> bool:
    """Whether an entry has a record that should hold: with a bar that was met, for settings that have not changed."""
    record = entry["record"]
    has_bar = entry.get("bar") is not None or entry.get("at_most") is not None
    # The minutes of a record do not count the recording of the data that it learns from.
    is_timed = not entry.get("recordings")
    return record is not None and is_timed and has_bar and record["met"] and not record["is_stale"]


def still_holds(record: Mapping[str, Any], score: float) -> bool:
    """Whether one seed, trained again, agrees with a record: it meets the bar, or lies among the recorded seeds."""
    scores = [seed[record.get("measure", "mean_return")] for seed in record["seeds"]]
    return is_met(record, [score]) or min(scores) <= score <= max(scores)
