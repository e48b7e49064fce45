"""The sinks of a run, told what is run."""

from typing import Any

from rein.config import get_operative_configs
from rein.runtime.run import Run
from rein.runtime.sinks import create_sinks
from rein.runtime.writers import SummaryWriter
from rein.training.run_directory import RunDirectory

_LONGEST_VALUE = 200


def open_sinks(directory: RunDirectory, run: Run, resume_step: int | None) -> list[SummaryWriter]:
    """The sinks that the settings in force ask for.

    Args:
        directory: of the run.
        run: built, so that the settings that it uses are known.
        resume_step: void what was recorded after this step; None voids nothing.
    """
    facts: dict[str, Any] = {"name": directory.path.name, "directory": str(directory.path.resolve()), "seed": run.seed}
    for name, value in get_operative_configs():
        short = ".".join(name.split(".")[-2:])
        plain = isinstance(value, bool | int | float | str | None)
        facts[short] = value if plain else repr(value)[:_LONGEST_VALUE]
    return create_sinks(directory.summaries, resume_step, facts, directory.is_trusted)
