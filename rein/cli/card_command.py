"""Writes a folder for a model hub: README.md with results and curve, weights as safetensors, settings, and the agent itself.

Nothing is uploaded: look at the folder, then hand it to your hub's own tool.

Example:
  rein card runs/ppo_cartpole-0-1 --output ppo-CartPole-v1
"""

import argparse
from pathlib import Path

from rein.cli.command import Outcome, Session


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command."""
    parser.add_argument("run", metavar="RUN", help="directory of the run, or of a saved agent")
    parser.add_argument("--output", metavar="DIR", help="the folder (default: card in RUN)")
    parser.add_argument("--overwrite", action="store_true", help="replace a card that is there")


def run(arguments: argparse.Namespace, session: Session) -> Outcome:
    """Writes the folder."""
    from rein.export.card import write_card
    from rein.training.run_directory import RunDirectory

    directory = RunDirectory.open(arguments.run)
    card = write_card(directory, Path(arguments.output or directory.path / "card"), arguments.overwrite)
    listing = "\n".join(f"  {name}" for name in card.files if not name.startswith("agent/"))
    text = f"{card.path}: nothing was uploaded\n{listing}\n  agent/  for rein.load"
    return Outcome({"directory": str(card.path), "files": list(card.files)}, text)
