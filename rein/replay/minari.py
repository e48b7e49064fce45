"""Minari datasets in and out of replay buffers; needs ``pip install 'rein-rl[offline]'``.

A Minari episode of T transitions becomes T + 1 steps: FIRST with the first observation, then one step per transition
with its reward and the observation that it led to, the last of them LAST with discount 0 where the episode terminated
and 1 where it was truncated. The action stored with a step is the one taken there; at LAST it is zero.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rein import nest
from rein.data_structures import Experience, StepType, time_step_spec
from rein.nest import Nest
from rein.replay.replay_buffer import ReplayBuffer
from rein.specs import TensorSpec, numpy_dtype, spec_from_space

__all__ = ["export_minari", "import_minari", "minari_spec"]


def minari_spec(dataset: Any) -> Experience:
    """The specs of the steps that `import_minari` stores of a `minari.MinariDataset`."""
    action_spec = spec_from_space(dataset.action_space)
    return Experience(
        time_step=time_step_spec(spec_from_space(dataset.observation_space), action_spec),
        action=action_spec,
    )


def import_minari(
    dataset: Any, max_length: int | None = None, directory: str | os.PathLike[str] | None = None, **options: Any
) -> ReplayBuffer:
    """A replay buffer of one environment that holds all episodes of a Minari dataset on this machine.

    Args:
        dataset: a `minari.MinariDataset`, the path of one (the directory with its ``data``), or its id.
        max_length: steps kept; None keeps all.
        directory: where ids are looked up; None means where Minari keeps its datasets.
        **options: further arguments of `ReplayBuffer`, such as `keep_episodic_info`.
    """
    dataset = _open(dataset, directory)
    spec = minari_spec(dataset)
    num_steps = int(dataset.total_steps) + int(dataset.total_episodes)
    buffer = ReplayBuffer(spec, 1, max_length or max(num_steps, 1), **options)
    for episode in dataset.iterate_episodes():
        for step in _steps_of(episode, spec):
            buffer.add_batch(step)
    return buffer


def export_minari(
    buffer: ReplayBuffer,
    dataset_id: str,
    observation_space: Any,
    action_space: Any,
    directory: str | os.PathLike[str] | None = None,
    **metadata: Any,
) -> Any:
    """Writes the episodes of a replay buffer as a new Minari dataset, and returns it.

    Of an episode whose beginning is overwritten or whose end has not come, the stored part is written, as truncated. A
    part without a single transition is left out.

    Args:
        buffer: of `Experience` or `TimeStep`.
        dataset_id: such as "cartpole/mine-v0".
        observation_space: Gymnasium space of the observations.
        action_space: Gymnasium space of the actions.
        directory: where to put it; None means where Minari keeps its datasets.
        **metadata: further arguments of `minari.create_dataset_from_buffers`, such as `env` or `algorithm_name`.
    """
    minari = _minari()
    episodes = list(_episodes_of(buffer))
    if not episodes:
        raise ValueError(f"{buffer.name} holds no transition to export")
    metadata.setdefault("jpeg_encoding", False)  # Minari's own default loses information in images
    with _datasets_in(directory):
        return minari.create_dataset_from_buffers(
            dataset_id, episodes, observation_space=observation_space, action_space=action_space, **metadata
        )


def _steps_of(episode: Any, spec: Experience) -> Iterator[Experience]:
    """The steps of an episode, each a batch of one."""
    count = len(episode.rewards)
    observations = _cast(episode.observations, spec.time_step.observation, count + 1, "observations", episode.id)
    actions = _cast(episode.actions, spec.action, count, "actions", episode.id)
    none = nest.map_structure(lambda leaf: leaf.zeros((1,)), spec.action)
    actions = nest.map_structure(lambda zero, leaf: torch.cat([zero, leaf, zero]), none, actions)
    kinds = torch.full((count + 1, 1), StepType.MID, dtype=torch.int32)
    kinds[0], kinds[-1] = StepType.FIRST, StepType.LAST
    rewards = torch.zeros(count + 1, 1)
    rewards[1:, 0] = torch.from_numpy(np.asarray(episode.rewards, dtype=np.float32))
    discounts = torch.ones(count + 1, 1)
    discounts[1:, 0] = 1 - torch.from_numpy(np.asarray(episode.terminations, dtype=np.float32))
    env_id = torch.zeros(1, dtype=torch.int64)
    for index in range(count + 1):
        time_step = spec.time_step._replace(
            step_type=kinds[index],
            reward=rewards[index],
            discount=discounts[index],
            observation=_one(observations, index),
            prev_action=_one(actions, index),
            env_id=env_id,
        )
        yield Experience(time_step=time_step, action=_one(actions, index + 1))


def _one(data: Nest, index: int) -> Nest:
    return nest.map_structure(lambda leaf: leaf[index : index + 1], data)


def _cast(data: Any, spec: Nest, count: int, what: str, episode_id: int) -> Nest:
    """Arrays of an episode as tensors [count, ...] of the specs' dtypes."""

    def one(path: str, leaf_spec: TensorSpec, array: Any) -> Tensor:
        values = np.asarray(array)
        wanted = (count, *leaf_spec.shape)
        if values.shape != wanted:
            where = f"{what}.{path}" if path else what
            raise ValueError(f"{where} of episode {episode_id} have shape {values.shape}, not {wanted}")
        return torch.from_numpy(np.array(values, dtype=numpy_dtype(leaf_spec.dtype)))

    return nest.map_structure_with_path(one, spec, data)


def _episodes_of(buffer: ReplayBuffer) -> Iterator[Any]:
    """The stored parts of all episodes as Minari's `EpisodeBuffer`s."""
    from minari.data_collector.episode_buffer import EpisodeBuffer

    prefix = "" if nest.is_namedtuple(buffer.data_spec) and "step_type" in buffer.data_spec._fields else "time_step."
    names = [f"{prefix}{name}" for name in ("step_type", "reward", "discount", "observation")]
    has_action = prefix != ""
    names.append("action" if has_action else "prev_action")
    number = 0
    for env_id in range(buffer.num_environments):
        ids = torch.tensor([env_id])
        end = int(buffer.current_pos[env_id])
        positions = torch.arange(end - int(buffer.current_size[env_id]), end)
        if len(positions) == 0:
            continue
        kinds = buffer.get_field(names[0], ids, positions)
        for low, high in _runs(kinds):
            _, rewards, discounts, observations, actions = buffer.get_field(names, ids, positions[low:high])
            part = slice(None, -1) if has_action else slice(1, None)
            terminated = discounts[1:] == 0
            truncated = torch.zeros_like(terminated)
            truncated[-1] = ~terminated[-1]
            yield EpisodeBuffer(
                id=number,
                observations=nest.to_numpy(observations),
                actions=nest.to_numpy(nest.index_nest(actions, part)),
                rewards=rewards[1:].numpy(),
                terminations=terminated.numpy(),
                truncations=truncated.numpy(),
                infos={},
            )
            number += 1


def _runs(kinds: Tensor) -> Iterator[tuple[int, int]]:
    """Stretches [low, high) of more than one step that belong to one episode."""
    low = 0
    for index, kind in enumerate(kinds.tolist()):
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


def _open(dataset: Any, directory: str | os.PathLike[str] | None) -> Any:
    minari = _minari()
    if isinstance(dataset, minari.MinariDataset):
        return dataset
    path = Path(dataset)
    for candidate in (path / "data", path):
        if (candidate / "metadata.json").is_file():
            return minari.MinariDataset(candidate)
    with _datasets_in(directory):
        return minari.load_dataset(os.fspath(dataset))


@contextmanager
def _datasets_in(directory: str | os.PathLike[str] | None) -> Iterator[None]:
    """Makes Minari keep its datasets in `directory` meanwhile."""
    name = "MINARI_DATASETS_PATH"
    before = os.environ.get(name)
    if directory is not None:
        Path(directory).mkdir(parents=True, exist_ok=True)
        os.environ[name] = os.fspath(directory)
    try:
        yield
    finally:
        if before is not None:
            os.environ[name] = before
        elif directory is not None:
            del os.environ[name]


def _minari() -> Any:
    try:
        import minari
    except ImportError as error:
        raise ImportError("Minari datasets need: pip install 'rein-rl[offline]'") from error
    return minari
