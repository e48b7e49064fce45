"""Compares runs over seeds: interquartile means with bootstrap intervals, and the probability that one beats the other.

A path may be a run, or a folder with runs in it. Runs that differ by seed only belong together, and so do all runs of a
folder that differ by seed and environment only.

Example:
  rein compare runs/ppo runs/a2c
  rein compare runs/ppo_cartpole-0-1 runs/ppo_cartpole-1-1 runs/a2c_cartpole-0-1 runs/a2c_cartpole-1-1
  rein compare runs/old runs/new --output comparison.html
"""

import argparse
from pathlib import Path

from rein.cli.command import Outcome, Session


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("runs", nargs="+", metavar="PATH", help="runs, or folders with runs in them")
    parser.add_argument(
        "--output",
        default="comparison.html",
        metavar="FILE",
        help=".html (words, table, charts) or .svg (the intervals) (default: %(default)s)",
    )


def run(arguments: argparse.Namespace, session: Session) -> Outcome:
    """Compares."""
    from rein.training.comparison import compare
    from rein.training.comparison_page import check_format, write_comparison

    output = Path(arguments.output)
    check_format(output)
    comparison = compare(arguments.runs)
    write_comparison(comparison, output)
    return Outcome({"file": str(output), **comparison.to_json()}, f"{comparison}\n\nchart: {output}")
