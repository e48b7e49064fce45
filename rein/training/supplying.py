"""What a saved run cannot hold, and has to be given again by whoever loads it."""

import logging
from collections.abc import Iterable

from rein.config.saving import values_not_saved
from rein.training.run_directory import RunDirectory

logger = logging.getLogger(__name__)

ENV_NAME = "create_environment.env_name"
ONLY_TO_TRAIN = ("create_callbacks.callbacks", "create_sinks.sinks")
"""Settings that a policy does not need to act."""


def say_what_to_supply(directory: RunDirectory, is_data: Iterable[str] = ()) -> None:
    """Warns, at the time of saving, of what will have to be supplied to load a run.

    Args:
        directory: where it was saved.
        is_data: ends of the names of settings that are supplied by `data=`.
    """
    lost = values_not_saved(directory.config)
    wanted = [name for name in lost if name != ENV_NAME and not name.endswith(tuple(is_data))]
    arguments = ["env=..."] if ENV_NAME in lost else []
    if wanted:
        arguments.append("supply={" + ", ".join(f'"{name}": ...' for name in wanted) + "}")
    if arguments:
        shown = ", ".join(lost[name] for name in lost if name == ENV_NAME or name in wanted)
        logger.warning(
            "%s was saved without %s, to which no name in a module leads. Load it with rein.load(%r, %s)",
            directory.path,
            shown,
            str(directory.path),
            ", ".join(arguments),
        )
