"""Episodes as blocks of steps: what one must be like, and how it is found in recorded steps.

An episode is an `Experience` of n >= 2 steps [n, ...], FIRST, MID ..., LAST, with what was seen in `time_step` and what
was done in `action`; the action at LAST does not count. Tensors are on the CPU.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rein import nest
from rein.data_structures import Experience, StepType, TimeStep
from rein.nest import Nest
from rein.replay.datasets.manifest import DataSetError, Specs, column_specs
from rein.specs import TensorSpec, numpy_dtype


def make_episode(steps: list[TimeStep]) -> Experience:
    """An episode from the time steps of one environment, each [...] without a batch; actions are those it reports."""
    time_step = nest.map_structure(lambda *leaves: torch.stack(leaves), *steps)
    return Experience(time_step=time_step, action=following_actions(time_step.prev_action))


def following_actions(prev_action: Nest) -> Nest:
    """The actions [n, ...] taken at steps, from those [n, ...] that led to them; zero at the last."""
    return nest.map_structure(lambda leaf: torch.cat([leaf[1:], torch.zeros_like(leaf[:1])]), prev_action)


def cut_episodes(steps: Experience) -> Iterator[Experience]:
    """The episodes in consecutive steps [N, ...] of one environment.

    What lacks its beginning or its end is taken as far as it is there: the first step becomes FIRST with reward 0, the
    last LAST with its discount. Single steps are left out.
    """
    kinds = steps.step_type.tolist()
    for low, high in episode_bounds(kinds):
        part = nest.map_structure(lambda leaf, cut=slice(low, high): leaf[cut].clone(), steps)
        part.time_step.step_type[0] = StepType.FIRST
        part.time_step.step_type[-1] = StepType.LAST
        part.time_step.reward[0] = 0
        part.time_step.discount[0] = 1
        yield part


def episode_bounds(kinds: list[int]) -> Iterator[tuple[int, int]]:
    """Stretches [low, high) of more than one step that belong to one episode, from their step types."""
    low = 0
    for index, kind in enumerate(kinds):
        if kind == StepType.FIRST and index > low:
            if index - low > 1:
                yield low, index
            low = index
        if kind == StepType.LAST:
            if index > low:
                yield low, index + 1
            low = index + 1
    if len(kinds) - low > 1:
        yield low, len(kinds)


def episode_columns(episode: Experience, specs: Specs, number: int, where: str) -> dict[str, np.ndarray]:
    """The rows of an episode for every column, checked; those of actions are the ones that were taken, [n, ...].

    Args:
        episode: [n, ...].
        specs: what it must be like.
        number: of the episode, for messages.
        where: the file that it is for, for messages.

    Raises:
        DataSetError: it is not an episode, does not fit the specs, or holds what is not finite.
    """
    time_step = episode.time_step
    given = {
        "step_type": time_step.step_type,
        "reward": time_step.reward,
        "discount": time_step.discount,
        **_named("observation", time_step.observation),
        **_named("action", episode.action),
    }
    wanted = column_specs(specs)
    if given.keys() != wanted.keys():
        raise DataSetError(f"{where}: episode {number} has {sorted(given)}, but the data set {sorted(wanted)}")
    count = len(given["step_type"])
    columns = {}
    for name, spec in wanted.items():
        columns[name] = _rows(given[name], spec, count, f"{where}: {name} of episode {number}")
    kinds = columns["step_type"]
    is_episode = count >= 2 and kinds[0] == StepType.FIRST and kinds[-1] == StepType.LAST
    if not is_episode or np.any(kinds[1:-1] != StepType.MID):
        raise DataSetError(f"{where}: episode {number} is not FIRST, MID ..., LAST, but {kinds.tolist()[:8]} ...")
    for name in columns:
        if name == "action" or name.startswith("action."):
            columns[name][-1] = 0
    _check_finite(columns, number, where)
    return columns


def _named(kind: str, part: Nest) -> dict[str, Any]:
    return {f"{kind}.{path}" if path else kind: leaf for path, leaf in nest.flatten_with_paths(part)}


def _rows(value: Any, spec: TensorSpec, count: int, what: str) -> np.ndarray:
    array = value.detach().cpu().numpy() if isinstance(value, Tensor) else np.asarray(value)
    if array.shape != (count, *spec.shape):
        raise DataSetError(f"{what} has shape {array.shape}, not {(count, *spec.shape)}")
    dtype = numpy_dtype(spec.dtype)
    if array.dtype != dtype and not np.can_cast(array.dtype, dtype, "same_kind"):
        raise DataSetError(f"{what} is {array.dtype}, not {dtype}")
    return np.array(array, dtype=dtype, order="C")


def _check_finite(columns: dict[str, np.ndarray], number: int, where: str) -> None:
    for name, rows in columns.items():
        if rows.dtype.kind == "f" and not np.isfinite(rows).all():
            row = int(np.argwhere(~np.isfinite(rows))[0][0])
            value = rows[row][~np.isfinite(rows[row])].flat[0]
            raise DataSetError(f"{where}: {name} of episode {number} is {value} at its step {row}")
