"""Lists what there is: algorithms, parts to compose them with, entries of the zoo with their evidence, environments.

Example:
  rein list
  rein list parts --all
  rein list zoo
  rein list envs --all
"""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from rein.cli.command import Outcome, Session

_KINDS = ("algorithms", "parts", "zoo", "envs")
_FEW = 8
_ZOO = ("name", "algorithm", "task", "score", "bar")
_TASK = 2
_WIDTH, _LEAST_TASK = 100, 12
"""Columns of the whole list of the zoo, and the least that its tasks get of them."""

Section = tuple[list[dict[str, Any]], str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("kind", nargs="?", choices=_KINDS, help="what to list (default: everything)")
    parser.add_argument(
        "--all",
        action="store_true",
        help="every environment id, not just a few of each suite; every parameter of parts, which imports them",
    )


def run(arguments: argparse.Namespace, session: Session) -> Outcome:
    """Lists."""
    data: dict[str, Any] = {}
    sections = []
    for kind in [arguments.kind] if arguments.kind else _KINDS:
        data[kind], text = _SECTIONS[kind](arguments.all)
        sections.append(f"{kind}:\n{text}")
    return Outcome(data, "\n\n".join(sections))


def _algorithms(show_all: bool) -> Section:
    from rein.zoo import algorithms, installed_algorithms

    known = algorithms()
    data = [{**entry.to_json(), "source": "rein"} for entry in known.values()]
    for component in installed_algorithms():
        hidden = " (cannot be used: Rein has an algorithm of that name)" if component.name in known else ""
        summary = component.entry_point.value + hidden
        data.append({"name": component.name, "summary": summary, "source": component.package})
    for one in data:
        one.setdefault("learns_from", one.get("data", "environment"))
    rows = [(one["name"], one.get("algorithm", ""), one["learns_from"], one["summary"], one["source"]) for one in data]
    return data, _table(("name", "class", "learns from", "what it is", "from"), rows)


def _parts(show_all: bool) -> Section:
    from rein.agents.registry import list_parts

    listings = list_parts()
    data: list[dict[str, Any]] = [listing._asdict() for listing in listings]
    lines = _table(("name", "slot", "what it does", "from"), listings).splitlines()
    if not show_all:
        return data, "\n".join([*lines, "  --all shows their parameters"])
    shown = lines[:1]
    for one, line in zip(data, lines[1:], strict=True):
        one["parameters"], one["error"] = _parameters(one["name"])
        text = ", ".join(one["parameters"]) or "no parameters"
        shown += [line, f"      {one['error'] or text}"]
    return data, "\n".join(shown)


def _parameters(name: str) -> tuple[list[str], str | None]:
    """Parameters of a part, and why they cannot be had."""
    from rein.agents.registry import PartError, find_part

    try:
        return [str(parameter) for parameter in find_part(name).parameters().values()], None
    except PartError as error:
        return [], str(error)


def _zoo(show_all: bool) -> Section:
    from rein.zoo.listing import find_records, list_zoo

    entries = list_zoo()
    rows = [_zoo_row(entry) for entry in entries]
    if show_all:
        more = ("steps", "seeds", "minutes", "date", "version")
        text = _table((*_ZOO, *more), [(*row, *_zoo_more(entry)) for row, entry in zip(rows, entries, strict=True)])
    else:
        taken = sum(max(len(row[i]) for row in [_ZOO, *rows]) for i in range(len(_ZOO)) if i != _TASK)
        room = max(_LEAST_TASK, _WIDTH - taken - 2 * len(_ZOO))
        text = _table(_ZOO, [(*row[:_TASK], _cut(row[_TASK], room), *row[_TASK + 1 :]) for row in rows])
        text += "\n  --all shows steps, seeds, minutes and dates; an entry without a score is not verified yet"
    if find_records() is None:
        text += "\n  This installation has no records, so nothing is known to be verified here."
    return entries, text


def _zoo_row(entry: dict[str, Any]) -> tuple[str, ...]:
    from rein.zoo.bars import short_bar_text

    record = entry["record"]
    bar = short_bar_text(entry) or "for comparison"
    task = str(entry.get("env") or entry.get("data"))
    if record is None:
        return (entry["name"], entry["typed"], task, "", bar)
    state = "" if bar == "for comparison" else " met" if record["met"] else " NOT met"
    shown = _score(record["score"], entry)
    return (entry["name"], entry["typed"], task, shown, bar + (", stale" if record["is_stale"] else state))


def _zoo_more(entry: dict[str, Any]) -> tuple[str, ...]:
    length = f"{entry['env_steps']:,}" if "env_steps" in entry else f"{entry['epochs']} epochs"
    record = entry["record"]
    if record is None:
        return (length, "", "", "", "")
    return (length, str(len(record["seeds"])), f"{record['minutes']:.1f}", record["date"] or "", record["version"])


def _score(value: float, entry: dict[str, Any]) -> str:
    from rein.zoo.bars import score_writer

    return score_writer(entry)(value)


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 1] + "…"


def _environments(show_all: bool) -> Section:
    from rein.envs.suites import available_suites

    suites = available_suites()
    data = [
        {
            "suite": suite.name,
            "description": suite.description,
            "installed": suite.installed,
            "extra": suite.extra,
            "ids": list(suite.ids),
        }
        for suite in suites
    ]
    lines = []
    for suite in suites:
        state = f"{len(suite.ids)} ids" if suite.installed else f"not installed: pip install 'rein-rl[{suite.extra}]'"
        lines.append(f"  {suite.name:<14}{suite.description} ({state})")
        shown = suite.ids if show_all else suite.ids[:_FEW]
        more = f", ... {len(suite.ids) - len(shown)} more" if len(shown) < len(suite.ids) else ""
        if shown:
            lines.append(f"  {'':<14}{', '.join(shown)}{more}")
    return data, "\n".join(lines)


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of equal width; numbers stand at the right."""
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    is_number = [any(row[i] for row in rows) and all(_is_number(row[i]) for row in rows) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, is_number, strict=True)
        ]
        return ("  " + "  ".join(cells)).rstrip()

    return "\n".join(map(line, [header, *rows]))


def _is_number(cell: str) -> bool:
    return not cell or cell.lstrip("-")[:1].isdigit()


_SECTIONS: dict[str, Callable[[bool], Section]] = {
    "algorithms": _algorithms,
    "parts": _parts,
    "zoo": _zoo,
    "envs": _environments,
}
