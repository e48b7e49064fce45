"""Writes report.html of a run, finished or not: curves, evaluations, video, configuration, machine. It needs nothing else.

Example:
  rein report runs/ppo_cartpole-0-1
"""

import argparse

from rein.cli.command import Outcome, Session


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("run", metavar="RUN", help="directory of the run")


def run(arguments: argparse.Namespace, session: Session) -> Outcome:
    """Writes the report."""
    from rein.training.report import write_report
    from rein.training.run_directory import RunDirectory

    path = write_report(RunDirectory.open(arguments.run))
    return Outcome({"report": str(path)}, str(path))
