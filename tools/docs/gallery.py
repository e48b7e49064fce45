"""The gallery: every record of `docs/results/` with its curve, its scores beside its bar, and the command that made it."""

import json
from collections.abc import Iterable
from html import escape
from itertools import groupby
from pathlib import Path
from typing import Any

from rein.zoo import task_entries
from rein.zoo.bars import bar_text, score_writer

RESULTS = Path(__file__).parents[2] / "docs" / "results"
_HEAD = """# Gallery

What {count} entries of [the zoo](zoo.md) have reached when `rein verify` trained them from scratch. On the line below a curve
every dot is the score of one seed on held-out episodes, and the red mark is the bar. The table with all figures, references
and versions is on [the page of results](results.md).

"""
_WIDTH, _EDGE = 280, 12


def gallery_page(folder: Path = RESULTS) -> str:
    """The text of the page, in Markdown with cards in HTML."""
    records = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    records.sort(key=lambda record: (record["env"].removeprefix("rein/"), record["name"]))
    page = _HEAD.format(count=len(records))
    for env, group in groupby(records, key=lambda record: record["env"]):
        page += f'## {env}\n\n<div class="gallery" markdown>\n\n{"".join(map(_card, group))}</div>\n\n'
    return page


def _card(record: dict[str, Any]) -> str:
    entry = task_entries().get(record["name"])
    show = score_writer(record)
    bar = bar_text(record, show)
    verdict = ("met" if record["met"] else "missed") if bar else "none"
    words = {"met": f"bar {bar}: met", "missed": f"bar {bar}: not met", "none": "no bar: others are compared with it"}
    budget = f"{record['epochs']} passes" if "epochs" in record else f"{record['env_steps']:,} steps"
    command = f"rein verify {record['name']} --seeds {len(record['seeds'])}"
    name = record["name"]
    return (
        f'<div class="card" markdown>\n\n![training curves of {name}](results/{name}.svg){{ loading=lazy }}\n\n'
        f"{_strip(record)}\n\n"
        f"**{show(record['score'])}** over {len(record['seeds'])} seeds, {budget}; "
        f'<span class="{verdict}">{escape(words[verdict])}</span>\n\n'
        f"{entry.summary if entry else record['algorithm']}\n\n`{command}`\n\n</div>\n\n"
    )


def _strip(record: dict[str, Any]) -> str:
    """The scores of the seeds as dots on a line, and the bar across it."""
    scores = [seed[record.get("measure") or "mean_return"] for seed in record["seeds"]]
    bars = [record[key] for key in ("bar", "at_most") if record.get(key) is not None]
    place = _scale([*scores, *bars])
    show = score_writer(record)
    marks = "".join(
        f'<circle cx="{place(score):.1f}" cy="10" r="4"><title>seed {seed["seed"]}: {show(score)}</title></circle>'
        for seed, score in zip(record["seeds"], scores, strict=True)
    )
    marks += "".join(
        f'<line class="bar" x1="{place(bar):.1f}" x2="{place(bar):.1f}" y1="0" y2="20"><title>bar {show(bar)}</title></line>'
        for bar in bars
    )
    axis = f'<line x1="{_EDGE}" x2="{_WIDTH - _EDGE}" y1="10" y2="10"/>'
    return (
        f'<svg class="strip" viewBox="0 0 {_WIDTH} 20" role="img" aria-label="scores of the seeds">{axis}{marks}</svg>'
    )


def _scale(values: Iterable[float]) -> Any:
    values = list(values)
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    return lambda value: _EDGE + (value - low) / span * (_WIDTH - 2 * _EDGE) if high > low else _WIDTH / 2
