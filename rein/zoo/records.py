"""Records: the evidence that a zoo entry learns, and the page that shows all of it.

A record is one JSON file per entry under `docs/results/`. It holds what was run, on what, and what came out, seed by seed,
so that anyone can run it again, and the settings that it rests on. `docs/results.md` is made from the records and never
edited by hand.
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rein.training.run_directory import write_atomically
from rein.training.statistics_of_runs import Band
from rein.training.svg_chart import Bar, bars_of, line_chart, short_number
from rein.zoo import ZooEntry, task_entries
from rein.zoo.bars import bar_text, number_text, score_writer
from rein.zoo.conf_texts import text_hash
from rein.zoo.families import FAMILIES, algorithm_name, family_of
from rein.zoo.trained_settings import TrainedSettings, trained_settings

Array = NDArray[np.float64]
RESULTS = Path("docs/results")
_PAGE_HEAD = """# Results

Made by `rein verify` from the records in `docs/results/`; not edited by hand. Each score is the mean return of the
deterministic policy over {episodes} episodes on held-out seeds, or with a % sign the share of them that ended in success,
averaged over seeds. A bar marked "at most" shows what fails without something; an entry without a bar is for comparison. The
last number of a row is how far ours lies above the number that its reference begins with, or below. IQM
is the interquartile mean of the returns of all episodes of all seeds with its 95 % bootstrap interval (stratified by seed).
Wall time is per seed, {threads} torch thread each, two seeds side by side, and other work may have run on the machine.
Curves show the training return against environment steps, or the loss on labelled data against passes, one line per seed;
the dashed line is the bar, where it is about that return.

{contents}
"""
_TABLE_HEAD = """
| entry | algorithm | task | steps | seeds | bar | score | per seed | IQM | met | minutes | version | reference | compared |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
"""
_FRESH_HEAD = """
## Fresh seeds

Entries chosen by lot, with the date as the seed of the lot, and trained on seeds that no record has (`rein verify --sample 10
--fresh --date DATE`): {held} of {number} hold their bar. "Before" marks what was trained with settings that the entry has no
longer.

| date | entry | seeds | bar | score | per seed | met |
|---|---|---|---|---|---|---|
"""
_NO_BAR = "for comparison"
_LEADING_NUMBER = re.compile(r"-?\d+(\.\d+)?(?=[ ,:;]|$)(?! %)")


def settings_facts(entry: ZooEntry, settings: TrainedSettings) -> dict[str, Any]:
    """What a record says of the conf that was trained, by which it is found out whether it is stale."""
    return {"conf_hash": settings.hash, "conf_text": text_hash(entry.path), "settings": settings._asdict()}


def changed_settings(record: dict[str, Any], entry: ZooEntry) -> list[str]:
    """Settings that decide what is trained and have changed since the record was made."""
    recorded = record.get("settings")
    if recorded is None:
        return ["all of them, as the record has none"]
    return TrainedSettings(**recorded).changes_to(trained_settings(entry.path))


def read_record(name: str, directory: Path = RESULTS) -> dict[str, Any] | None:
    """The record of an entry, or None."""
    path = directory / f"{name}.json"
    if not path.exists():
        return None
    record: dict[str, Any] = json.loads(path.read_text())
    return record


def write_record(record: dict[str, Any], directory: Path = RESULTS) -> Path:
    """Writes a record and its curve, and brings the page up to date."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{record['name']}.json"
    write_atomically(path, _record_text(record))
    write_atomically(directory / f"{record['name']}.svg", _curve(record))
    write_atomically(directory.parent / "results.md", results_page(directory))
    return path


def write_fresh(record: dict[str, Any], date: str, directory: Path = RESULTS) -> None:
    """Notes how an entry that was chosen by lot did on seeds that its record has not, and brings the page up to date."""
    facts = ("name", "measure", "bar", "at_most", "in_every_seed", "met", "score", "commit", "settings")
    scores = {seed["seed"]: seed[record["measure"]] for seed in record["seeds"]}
    path = directory / "fresh" / f"{date}_{record['name']}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, _record_text({**{key: record[key] for key in facts}, "date": date, "scores": scores}))
    write_atomically(directory.parent / "results.md", results_page(directory))


def is_stale(record: dict[str, Any], entry: ZooEntry) -> bool:
    """Whether the conf trains something else than when the record was made."""
    return bool(changed_settings(record, entry))


def note_texts(directory: Path = RESULTS) -> None:
    """Notes in each record that is not stale what its conf says by now, so that lists need not run it to know."""
    for path in sorted(directory.glob("*.json")):
        record = json.loads(path.read_text())
        entry = task_entries().get(record["name"])
        if entry is not None and record.get("conf_text") != text_hash(entry.path) and not is_stale(record, entry):
            write_atomically(path, _record_text({**record, "conf_text": text_hash(entry.path)}))


def write_page(directory: Path = RESULTS) -> None:
    """Draws the curves of all records and writes the page, `results.md` beside the directory."""
    for path in sorted(directory.glob("*.json")):
        write_atomically(path.with_suffix(".svg"), _curve(json.loads(path.read_text())))
    write_atomically(directory.parent / "results.md", results_page(directory))


def results_page(directory: Path = RESULTS) -> str:
    """The text of docs/results.md."""
    records = [json.loads(path.read_text()) for path in sorted(directory.glob("*.json"))]
    episodes = sorted({record["episodes"] for record in records}) or [100]
    families = {family: [one for one in records if _family(one) == family] for family in FAMILIES}
    families = {family: found for family, found in families.items() if found}
    contents = "\n".join(f"- [{FAMILIES[family]}](#{_anchor(family)})" for family in families)
    page = _PAGE_HEAD.format(episodes=", ".join(map(str, episodes)), threads=1, contents=contents)
    for family, found in families.items():
        page += f"\n## {FAMILIES[family]}\n{_TABLE_HEAD}" + "".join(map(_row, found)) + "\n"
        page += "".join(f"![{record['name']}](results/{record['name']}.svg)\n" for record in found)
    page += _fresh_seeds(directory / "fresh") + "\n## Commands\n\n"
    page += "".join(f"- `rein verify {record['name']} --seeds {len(record['seeds'])}`\n" for record in records)
    return page


def _fresh_seeds(directory: Path) -> str:
    found = [json.loads(path.read_text()) for path in sorted(directory.glob("*.json"))]
    rows = []
    for one in found:
        show = score_writer(one)
        scores = ", ".join(f"{show(score)}" for score in one["scores"].values())
        entry = task_entries().get(one["name"])
        changed = ["the conf"] if entry is None else changed_settings(one, entry)
        cells = [
            one["date"],
            one["name"] + (f" (before {', '.join(changed)} changed)" if changed else ""),
            ", ".join(one["scores"]),
            bar_text(one, show),
            f"**{show(one['score'])}**",
            scores,
        ]
        rows.append("| " + " | ".join([*cells, "yes" if one["met"] else "**no**"]) + " |\n")
    return _FRESH_HEAD.format(held=sum(one["met"] for one in found), number=len(found)) + "".join(rows) if found else ""


def _family(record: dict[str, Any]) -> str:
    entry = task_entries().get(record["name"])
    return "other" if entry is None else family_of(entry)


def _anchor(family: str) -> str:
    return FAMILIES[family].lower().replace(" ", "-")


def _record_text(record: dict[str, Any]) -> str:
    return json.dumps(record, indent=1) + "\n"


def _row(record: dict[str, Any]) -> str:
    entry = task_entries().get(record["name"])
    changed = ["the conf"] if entry is None else changed_settings(record, entry)
    stale = f" (stale: {', '.join(changed)} changed)" if changed else ""
    show = score_writer(record)
    scores = [seed[record.get("measure", "mean_return")] for seed in record["seeds"]]
    reference = (record if entry is None else entry.facts).get("reference") or ""
    number = _LEADING_NUMBER.match(reference)
    cells = [
        record["name"] + stale,
        record["algorithm"] if entry is None else algorithm_name(entry),
        record["env"],
        f"{record['epochs']} epochs" if "epochs" in record else short_number(record["env_steps"]),
        ", ".join(str(seed["seed"]) for seed in record["seeds"]),
        bar_text(record, show) or _NO_BAR,
        f"**{show(record['score'])}**",
        ", ".join(map(show, scores)),
        f"{number_text(record['iqm'])} [{number_text(record['iqm_interval'][0])}, {number_text(record['iqm_interval'][1])}]",
        "" if not bar_text(record, show) else "yes" if record["met"] else "**no**",
        f"{np.mean([seed['seconds'] for seed in record['seeds']]) / 60:.1f}",
        record["version"],
        reference,
        "" if number is None else show(record["score"] - float(number[0])),
    ]
    return "| " + " | ".join(cells) + " |\n"


def _curve(record: dict[str, Any]) -> str:
    bands = []
    for seed in record["seeds"]:
        points = np.array(seed["curve"], dtype=np.float64).reshape(-1, 2)
        if len(points):
            x, y = points[:, 0], points[:, 1]
            bands.append(Band(label=f"seed {seed['seed']}", x=x, mean=y, low=y, high=y, num_runs=1))
    if not bands:
        return '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>\n'
    bars = [] if record.get("measure", "mean_return") != "mean_return" else _bars(record)
    what, x_label = "training return", "environment steps"
    if "epochs" in record:
        what, x_label = "loss", "passes"
    elif not record["env_steps"]:
        what, x_label = "evaluation return", "iterations"
    text = bar_text(record, score_writer(record))
    # A bar on another scale than the curve, of success rates for instance, is only named.
    named = "" if bars else f", bar {text}" if text else f", {_NO_BAR}"
    return line_chart(bands, f"{record['name']}: {what}{named}", x_label, "", bars=bars)


def _bars(record: dict[str, Any]) -> list[Bar]:
    return bars_of({"bars": {key: record[key] for key in ("bar", "at_most") if record.get(key) is not None}})
