"""The command `rein`."""

from rein.cli.entry import main

__all__ = ["main"]
