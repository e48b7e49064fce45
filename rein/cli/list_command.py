"""Lists what there is: algorithms, entries of the zoo, and environments with what they need.

Example:
  rein list
  rein list zoo
  rein list envs --all
"""

import argparse
from typing import Any

from rein.cli.command import Outcome, Session
from rein.zoo import algorithms, tasks

_KINDS = ("algorithms", "zoo", "envs")
_FEW = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("kind", nargs="?", choices=_KINDS, help="what to list (default: everything)")
    parser.add_argument("--all", action="store_true", help="every environment id, not just a few of each suite")


def run(arguments: argparse.Namespace, session: Session) -> Outcome:
    """Lists."""
    data: dict[str, Any] = {}
    sections = []
    for kind in [arguments.kind] if arguments.kind else _KINDS:
        if kind == "envs":
            data[kind], text = _environments(arguments.all)
        else:
            entries = (algorithms() if kind == "algorithms" else tasks()).values()
            data[kind] = [entry.to_json() for entry in entries]
            text = "\n".join(f"  {entry.name:<24}{entry.summary}" for entry in entries)
        sections.append(f"{kind}:\n{text}")
    return Outcome(data, "\n\n".join(sections))


def _environments(show_all: bool) -> tuple[list[dict[str, Any]], str]:
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
