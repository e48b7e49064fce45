"""Minari datasets in and out of replay buffers and data sets; needs ``pip install 'rein-rl[offline]'``.

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
from rein.replay.datasets import DataSet, DataSetWriter
from rein.replay.datasets.episodes import episode_bounds
from rein.replay.replay_buffer import ReplayBuffer
from rein.specs import TensorSpec, numpy_dtype, space_from_spec, spec_from_space

__all__ = ["data_set_to_minari", "export_minari", "import_minari", "minari_spec", "minari_to_data_set"]


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
        steps = _steps_of(episode, spec)
        buffer.add_rollout(nest.map_structure(lambda leaf: leaf.unsqueeze(1), steps))
    return buffer


def minari_to_data_set(
    dataset: Any,
    path: str | os.PathLike[str],
    directory: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
) -> Path:
    """Writes all episodes of a Minari dataset on this machine as a data set, and returns its path.

    Args:
        dataset: a `minari.MinariDataset`, the path of one (the directory with its ``data``), or its id.
        path: of the new file.
        directory: where ids are looked up; None means where Minari keeps its datasets.
        overwrite: replace a file that is there.
    """
    dataset = _open(dataset, directory)
    spec = minari_spec(dataset)
    with DataSetWriter(path, spec.time_step.observation, spec.action, overwrite=overwrite) as writer:
        writer.add_source({"minari": str(dataset.id), "env": str(getattr(dataset.env_spec, "id", None))})
        for episode in dataset.iterate_episodes():
            writer.add_episode(_steps_of(episode, spec))
    return writer.path


def data_set_to_minari(
    data_set: DataSet, dataset_id: str, directory: str | os.PathLike[str] | None = None, **metadata: Any
) -> Any:
    """Writes a data set as a new Minari dataset, and returns it.

    Args:
        data_set: its reward must be a scalar.
        dataset_id: such as "cartpole/mine-v0".
        directory: where to put it; None means where Minari keeps its datasets.
        **metadata: further arguments of `minari.create_dataset_from_buffers`, such as `env` or `algorithm_name`.
    """
    if data_set.specs.reward.ndim:
        raise ValueError(f"{data_set.path} has a vector reward, which Minari does not know")
    data_set.verify()
    spaces = {
        "observation_space": space_from_spec(data_set.specs.observation),
        "action_space": space_from_spec(data_set.specs.action),
    }
    episodes = [_minari_episode(index, data_set.episode(index)) for index in range(data_set.num_episodes)]
    return _create(dataset_id, episodes, directory, {**spaces, **metadata})


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
    _minari()
    episodes = list(_episodes_of(buffer))
    if not episodes:
        raise ValueError(f"{buffer.name} holds no transition to export")
    spaces = {"observation_space": observation_space, "action_space": action_space}
    return _create(dataset_id, episodes, directory, {**spaces, **metadata})


def _create(dataset_id: str, episodes: list[Any], directory: Any, metadata: dict[str, Any]) -> Any:
    minari = _minari()
    metadata.setdefault("jpeg_encoding", False)  # Minari's own default loses information in images
    with _datasets_in(directory):
        return minari.create_dataset_from_buffers(dataset_id, episodes, **metadata)


def _steps_of(episode: Any, spec: Experience) -> Experience:
    """The steps of an episode, [n, ...]."""
    count = len(episode.rewards)
    observations = _cast(episode.observations, spec.time_step.observation, count + 1, "observations", episode.id)
    actions = _cast(episode.actions, spec.action, count, "actions", episode.id)
    none = nest.map_structure(lambda leaf: leaf.zeros((1,)), spec.action)
    actions = nest.map_structure(lambda zero, leaf: torch.cat([zero, leaf, zero]), none, actions)
    kinds = torch.full((count + 1,), StepType.MID, dtype=torch.int32)
    kinds[0], kinds[-1] = StepType.FIRST, StepType.LAST
    rewards = torch.zeros(count + 1)
    rewards[1:] = torch.from_numpy(np.asarray(episode.rewards, dtype=np.float32))
    discounts = torch.ones(count + 1)
    discounts[1:] = 1 - torch.from_numpy(np.asarray(episode.terminations, dtype=np.float32))
    time_step = spec.time_step._replace(
        step_type=kinds,
        reward=rewards,
        discount=discounts,
        observation=observations,
        prev_action=nest.map_structure(lambda leaf: leaf[:-1], actions),
        env_id=torch.zeros(count + 1, dtype=torch.int64),
    )
    return Experience(time_step=time_step, action=nest.map_structure(lambda leaf: leaf[1:], actions))


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
        for low, high in episode_bounds(kinds.tolist()):
            _, rewards, discounts, observations, actions = buffer.get_field(names, ids, positions[low:high])
            part = slice(None, -1) if has_action else slice(1, None)
            taken = nest.index_nest(actions, part)
            yield _episode_buffer(number, observations, taken, rewards, discounts)
            number += 1


def _minari_episode(number: int, episode: Experience) -> Any:
    taken = nest.map_structure(lambda leaf: leaf[:-1], episode.action)
    return _episode_buffer(number, episode.observation, taken, episode.reward, episode.discount)


def _episode_buffer(number: int, observations: Nest, actions: Nest, rewards: Tensor, discounts: Tensor) -> Any:
    """An episode of n steps as Minari's `EpisodeBuffer`; actions are [n - 1, ...], the rest [n, ...]."""
    from minari.data_collector.episode_buffer import EpisodeBuffer

    terminated = discounts[1:] == 0
    truncated = torch.zeros_like(terminated)
    truncated[-1] = ~terminated[-1]
    return EpisodeBuffer(
        id=number,
        observations=nest.to_numpy(observations),
        actions=nest.to_numpy(actions),
        rewards=rewards[1:].numpy(),
        terminations=terminated.numpy(),
        truncations=truncated.numpy(),
        infos={},
    )


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
