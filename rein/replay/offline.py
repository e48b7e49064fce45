"""Offline data from wherever it is: data sets, which are files, and saved replay buffers, which are directories."""

import os
from collections.abc import Sequence
from typing import Any

from rein import nest
from rein.data_structures import Experience
from rein.replay.datasets import DataSet, Specs, is_data_set, make_offline_buffer
from rein.replay.files import load_offline_buffer, saved_paths
from rein.replay.replay_buffer import ReplayBuffer

PathLike = str | os.PathLike[str]


def load_offline_data(
    paths: PathLike | Sequence[PathLike],
    specs: Specs,
    data_spec: Experience,
    length: int | None = None,
    **options: Any,
) -> ReplayBuffer:
    """A buffer to learn from with the data at `paths`, whichever algorithm recorded it.

    Of saved replay buffers all of `data_spec` is taken if they have all of it; else, as of data sets, the time steps and
    the actions.

    Args:
        paths: one or several data sets, or one or several directories of `save_replay_buffer`.
        specs: of the world that is learnt about, which the data must fit.
        data_spec: specs of a step as the algorithm itself would store it.
        length: newest steps to use of each; None is all.
        **options: further arguments of `ReplayBuffer`, such as `prioritized_sampling`.

    Raises:
        ValueError: the data does not fit, or cannot be used; the message is one line and names the file.
    """
    found = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    are_files = {is_data_set(path) for path in found}
    if len(are_files) > 1:
        raise ValueError("offline_buffer_dir names files and directories: give data sets, or saved replay buffers")
    if are_files == {True}:
        for path in found:
            DataSet.open(path).require_specs(specs, "the environment")
        return make_offline_buffer(found, None, length, **options)
    wanted = {path for path, _ in nest.flatten_with_paths(data_spec)}
    if any(not wanted <= saved_paths(path) for path in found):
        # What algorithms note of a step for their own learning is theirs.
        data_spec = Experience(time_step=data_spec.time_step._replace(env_info=()), action=data_spec.action)
    return load_offline_buffer(data_spec, found, length, **options)
