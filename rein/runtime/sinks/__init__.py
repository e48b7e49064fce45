"""Sinks: where summaries go besides TensorBoard events and lines of JSON.

A sink is a `SummaryWriter`. Its class is called with what the user gives, and those of the parameters `directory` (of the
summaries), `resume_step` (void what was recorded after it; None voids nothing) and `facts` (of the run) that it has.
"""

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rein.config import configurable
from rein.config.errors import ConfigError
from rein.config.extensions import make_extension
from rein.runtime.sinks.csv_file import CsvWriter
from rein.runtime.sinks.guard import GuardedWriter
from rein.runtime.sinks.mlflow_run import MlflowWriter
from rein.runtime.sinks.wandb_run import WandbWriter
from rein.runtime.writers import SummaryWriter

__all__ = ["CsvWriter", "GuardedWriter", "MlflowWriter", "SinkError", "WandbWriter", "create_sinks"]

logger = logging.getLogger(__name__)

READY: dict[str, Callable[..., Any]] = {"csv": CsvWriter, "wandb": WandbWriter, "mlflow": MlflowWriter}
GROUP = "rein.sinks"


class SinkError(ValueError):
    """A sink cannot be used; the message says why."""


@configurable(whitelist=["sinks"])
def create_sinks(
    directory: str | os.PathLike[str],
    resume_step: int | None,
    facts: Mapping[str, Any],
    trust: bool,
    sinks: Sequence[Any] = (),
) -> list[SummaryWriter]:
    """The sinks that the settings of a run ask for; one that fails says so once and is left alone.

    What is wrong with the settings, or a package that is missing, is an error before anything starts.

    Args:
        directory: of the summaries.
        resume_step: of a run that is resumed.
        facts: of the run: its settings, seed and folder.
        trust: whether a module that a text names may be imported for it.
        sinks: of each a text such as "csv", "wandb(project='mine', mode='offline')" or "my_module:Sink"; a class, or another
            function that makes one; or a `SummaryWriter`.
    """
    if isinstance(sinks, str):
        raise SinkError(f"sinks are {sinks!r}: give a list, [{sinks!r}]")
    found = (_sink(one, directory, resume_step, facts, trust) for one in sinks)
    return [one for one in found if one is not None]


def _sink(
    given: Any, directory: str | os.PathLike[str], resume_step: int | None, facts: Mapping[str, Any], trust: bool
) -> SummaryWriter | None:
    name = given if isinstance(given, str) else type(given).__name__
    made = given
    try:
        if isinstance(given, str):
            more = {"directory": directory, "resume_step": resume_step, "facts": facts}
            made = make_extension(given, "sink", READY, GROUP, trust, **more)
        elif not isinstance(given, SummaryWriter) and callable(given):
            made = given()
    except (ConfigError, ImportError):
        raise
    except Exception as error:
        logger.warning("the sink %s gets nothing of this run, which goes on: %s: %s", name, type(error).__name__, error)
        return None
    if not isinstance(made, SummaryWriter):
        raise SinkError(f"sink {given!r} is no rein.runtime.summary.SummaryWriter: derive its class from that")
    return GuardedWriter(made, name)
