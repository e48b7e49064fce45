"""Replay buffers that fit into memory: what is by default gets shorter, what was asked for is refused."""

import logging
from pathlib import Path

from rein import nest
from rein.config import config, get_config_value, given_by
from rein.envs import Environment
from rein.framework import TrainerConfig
from rein.training.hardware import memory_limit

logger = logging.getLogger(__name__)

_SHARE = 0.5
"""Of the memory that there is, for a replay buffer whose length nobody asked for."""
_LENGTH = "TrainerConfig.replay_buffer_length"
_DEFAULTS = Path(__file__).parents[1] / "zoo"


def fit_replay_buffer(settings: TrainerConfig, env: Environment) -> None:
    """Shortens a replay buffer of default length that would take more than half of the memory, and says so.

    The new length is part of the configuration in force, so that it is saved with the run and the same when that goes on.
    Memory is taken as steps come in: what is refused here would be killed by the system much later.

    Args:
        settings: of the run.
        env: whose steps are stored.

    Raises:
        ValueError: a length that was asked for needs more than all memory.
    """
    if settings.whole_replay_buffer_training or get_config_value("ReplayBuffer.storage") != "memory":
        return
    leaves = nest.flatten(env.time_step_spec())
    step = env.batch_size * sum(leaf.numel * leaf.dtype.itemsize for leaf in leaves)
    length, memory = settings.replay_buffer_length, memory_limit()
    fitting = int(_SHARE * memory) // step
    if _is_default() and length > fitting:
        settings.replay_buffer_length = fitting
        config("TrainerConfig", replay_buffer_length=fitting, raise_if_used=False)
        logger.warning(
            "the replay buffer holds %s steps of each environment in place of %s, which would need %s of %s: set %s to "
            "choose another length",
            *(f"{fitting:,}", f"{length:,}", _gib(length * step), _gib(memory), _LENGTH),
        )
    elif length * step > memory:
        raise ValueError(
            f"{_LENGTH} is {length:,}: the replay buffer would need {_gib(length * step)}, and there are {_gib(memory)} of "
            f"memory: give at most {fitting:,}, or keep it in files by ReplayBuffer.storage=mmap"
        )


def _is_default() -> bool:
    """Whether the length is that of the defaults of an algorithm, not of a user or a task."""
    source = given_by(_LENGTH)
    return source is not None and Path(source).parent in (_DEFAULTS / "bases", _DEFAULTS / "parts")


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"
