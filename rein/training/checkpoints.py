"""Which checkpoint of a run is meant."""

from rein.runtime.checkpoint import Checkpoint, Checkpointer
from rein.training.run_directory import RunDirectory, RunDirectoryError


def load_parameters(directory: RunDirectory, step: int | str | None) -> Checkpoint:
    """What a run needs to act or predict, from a checkpoint.

    Args:
        directory: of the run.
        step: iterations after which it was saved; None is the newest; or the name that a callback has kept a policy under,
            such as "best".
    """
    find_checkpoint(directory, step)
    checkpointer = _checkpointer(directory, step)
    number = None if isinstance(step, str) else step
    return checkpointer.load(number, components=["alg"], optional=["data_transformer"])


def find_checkpoint(directory: RunDirectory, step: int | str | None) -> None:
    """Raises `RunDirectoryError` if a run has no such checkpoint; see `load_parameters`."""
    steps = _checkpointer(directory, step).steps()
    if isinstance(step, str) and not steps:
        raise RunDirectoryError(
            f"{directory.path} has kept no policy as {step!r}: train it with the callback keep_best, or load the newest "
            "checkpoint"
        )
    if not steps:
        raise RunDirectoryError(
            f"{directory.path} has no checkpoint yet: let the run go on with `rein resume {directory.path}`"
        )
    if isinstance(step, int) and step not in steps:
        raise RunDirectoryError(
            f"{directory.path} has no checkpoint of iteration {step}: there are {', '.join(map(str, steps))}"
        )


def _checkpointer(directory: RunDirectory, step: int | str | None) -> Checkpointer:
    return Checkpointer(directory.policies(step) if isinstance(step, str) else directory.checkpoints)
