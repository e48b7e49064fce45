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
from rein.replay.storage import stored_fields
from rein.runtime.checkpoint import Checkpointer, CheckpointError
from rein.specs import TensorSpec

__all__ = ["load_offline_buffer", "load_replay_buffer", "save_replay_buffer", "saved_paths"]

_STATE, _OPTIONS = "replay_buffer", "replay_buffer_options"

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
        data_spec: nest of specs of one step; the saved buffers must have all of it, and may have more.
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
    counts = {len(source) for source in sources}
    if len(counts) != 1:
        raise ValueError(f"the saved buffers have different numbers of environments: {sorted(counts)}")
    longest = [max(nest.get_nest_batch_size(steps) for steps in source) for source in sources]
    taken = sum(size if length is None else min(size, length) for size in longest)
    options.setdefault("max_length", max(taken, 1))
    buffer = ReplayBuffer(data_spec, counts.pop(), **options)
    for source in sources:
        _append(buffer, source, length)
    return buffer


def saved_paths(directory: PathLike) -> set[str]:
    """The paths of all fields that a saved buffer has of a step."""
    return set(stored_fields(_read(directory)[_STATE]))


def _read(directory: PathLike) -> dict[str, Any]:
    components = Checkpointer(directory).load().components
    if _STATE not in components or _OPTIONS not in components:
        raise CheckpointError(f"{directory} holds {sorted(components)}, not a replay buffer")
    return dict(components)


def _open(data_spec: Nest, directory: PathLike) -> list[Nest]:
    """The steps [n, ...] of each environment that was saved, as far as `data_spec` asks for them."""
    saved = _read(directory)
    state, options = saved[_STATE], saved[_OPTIONS]
    if options.get("stacked_fields"):
        return _open_stacked(data_spec, state, options)
    fields = stored_fields(state)
    leaves = []
    for path, spec in nest.flatten_with_paths(data_spec):
        found = fields.get(path)
        if found is None or found.shape[1:] != spec.shape or found.dtype != spec.dtype:
            there = "nothing" if found is None else str(TensorSpec.from_tensor(found, 1))
            raise ValueError(f"{directory} does not fit: it has {there} as {path!r}, but {spec} is wanted")
        leaves.append(found)
    steps = nest.pack_sequence_as(data_spec, leaves)
    sizes = [int(size) for size in state["current_size"]]
    ends = [sum(sizes[: index + 1]) for index in range(len(sizes))]
    return [
        nest.map_structure(lambda leaf, cut=slice(end - size, end): leaf[cut], steps)
        for size, end in zip(sizes, ends, strict=True)
    ]


def _open_stacked(data_spec: Nest, state: dict[str, Any], options: dict[str, Any]) -> list[Nest]:
    """The same for a buffer that keeps single frames: a buffer like it puts the stacks together."""
    buffer = ReplayBuffer(data_spec, state["num_environments"], state["max_length"], **options)
    buffer.load_state_dict(state)
    ends, sizes = buffer.current_pos.tolist(), buffer.current_size.tolist()
    return [
        buffer.get_field("", torch.full((size,), env_id), torch.arange(end - size, end))
        for env_id, (end, size) in enumerate(zip(ends, sizes, strict=True))
    ]


def _append(buffer: ReplayBuffer, source: list[Nest], length: int | None) -> None:
    for env_id, steps in enumerate(source):
        size = nest.get_nest_batch_size(steps)
        newest = slice(size - min(size, length or size), size)
        if newest.stop > newest.start:
            rollout = nest.map_structure(lambda leaf, cut=newest: leaf[cut].unsqueeze(1), steps)
            buffer.add_rollout(rollout, torch.tensor([env_id]))
    if buffer.has_step_type:
        buffer.end_open_episodes()
