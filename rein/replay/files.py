"""Replay buffers on disk: exact copies to resume from, and data to learn from offline.

A saved buffer is a checkpoint of `rein.runtime.checkpoint`: safetensors files and a manifest with their sizes and
hashes, written so that a crash leaves the previous one intact. A file cut short or altered is refused when loading.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from rein import nest
from rein.nest import Nest
from rein.replay.replay_buffer import ReplayBuffer
from rein.runtime.checkpoint import Checkpointer, CheckpointError

__all__ = ["load_offline_buffer", "load_replay_buffer", "save_replay_buffer"]

_STATE, _OPTIONS = "replay_buffer", "replay_buffer_options"
_CHUNK = 256

PathLike = str | os.PathLike[str]


def save_replay_buffer(buffer: ReplayBuffer, directory: PathLike, keep: int = 1) -> Path:
    """Saves all that `buffer` holds, and returns where.

    Args:
        buffer: stays as it is.
        directory: made if missing; holds one numbered checkpoint per save.
        keep: how many of the latest saves to keep.
    """
    checkpointer = Checkpointer(directory, keep=keep)
    step = max(checkpointer.steps(), default=-1) + 1
    return checkpointer.save(step, {_STATE: buffer.state_dict(), _OPTIONS: buffer.storage_options()})


def load_replay_buffer(buffer: ReplayBuffer, directory: PathLike) -> None:
    """Replaces all that `buffer` holds by the latest save in `directory`, exactly.

    Raises:
        CheckpointError: if there is none, or it is damaged.
        ValueError: if it comes from a buffer of other size, spec or options.
    """
    buffer.load_state_dict(_read(directory)[_STATE])


def load_offline_buffer(
    data_spec: Nest, directories: PathLike | Sequence[PathLike], length: int | None = None, **options: Any
) -> ReplayBuffer:
    """A new buffer with the data of saved ones.

    Args:
        data_spec: nest of specs of one step, equal to that of the saved buffers.
        directories: one or several directories of `save_replay_buffer`; their buffers have equally many environments.
        length: newest steps per environment to take from each; None takes all.
        **options: further arguments of the new `ReplayBuffer`, such as `prioritized_sampling`.

    Returns:
        A buffer in which the data of the directories follow each other in every environment, each ended as by a time
        limit if `data_spec` has a `step_type`. It is as long as what was loaded, unless `max_length` is given.
    """
    if isinstance(directories, str | os.PathLike):
        directories = [directories]
    if not directories:
        raise ValueError("directories is empty: name at least one")
    if length is not None and length < 1:
        raise ValueError(f"length is {length}: give at least 1, or None for all")
    sources = [_open(data_spec, directory) for directory in directories]
    counts = {source.num_environments for source in sources}
    if len(counts) != 1:
        raise ValueError(f"the saved buffers have different numbers of environments: {sorted(counts)}")
    longest = [int(source.current_size.max()) for source in sources]
    taken = sum(size if length is None else min(size, length) for size in longest)
    options.setdefault("max_length", max(taken, 1))
    buffer = ReplayBuffer(data_spec, counts.pop(), **options)
    for source in sources:
        _append(buffer, source, length)
    return buffer


def _read(directory: PathLike) -> dict[str, Any]:
    components = Checkpointer(directory).load().components
    if _STATE not in components or _OPTIONS not in components:
        raise CheckpointError(f"{directory} holds {sorted(components)}, not a replay buffer")
    return dict(components)


def _open(data_spec: Nest, directory: PathLike) -> ReplayBuffer:
    """The buffer that was saved, with the same capacity and index."""
    saved = _read(directory)
    state, options = saved[_STATE], saved[_OPTIONS]
    buffer = ReplayBuffer(data_spec, state["num_environments"], state["max_length"], **options)
    buffer.load_state_dict(state)
    return buffer


def _append(buffer: ReplayBuffer, source: ReplayBuffer, length: int | None) -> None:
    sizes = source.current_size.clamp(max=length or source.max_length)
    first = source.current_pos - sizes
    done = 0
    for size in sorted(set(sizes.tolist())):
        env_ids = torch.nonzero(sizes >= size).flatten()
        for start in range(done, size, _CHUNK):
            offsets = torch.arange(start, min(start + _CHUNK, size))
            steps = source.get_field("", env_ids[:, None], first[env_ids][:, None] + offsets)
            for index in range(len(offsets)):
                buffer.add_batch(nest.index_nest(steps, (slice(None), index)), env_ids)
        done = max(done, size)
    if buffer.has_step_type:
        buffer.end_open_episodes()
