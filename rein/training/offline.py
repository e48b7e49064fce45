"""Runs that learn from data sets: what world the data is about, whether the run acts at all, and what it is taught by.

A run without an environment has `create_environment.env_name` set to "". Its specs come from its data sets and are kept
in the run directory, so that its policy can be loaded where the data is not.
"""

import json
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rein import nest
from rein.config import get_config_value
from rein.config.plain_files import read_json
from rein.data_structures import Experience, make_experience, restart
from rein.envs import create_environment
from rein.framework import RLAlgorithm, TrainerConfig
from rein.framework.acting.actor import Actor, without_learning
from rein.framework.updating.gradients import Batch, losses
from rein.framework.updating.offline_data import OfflineData
from rein.replay.datasets import DataSet, Specs
from rein.replay.datasets.spec_text import spec_from_json, spec_to_json
from rein.replay.offline import load_offline_data
from rein.runtime.seeding import get_rng_state, set_rng_state
from rein.specs import BoundedTensorSpec, TensorSpec
from rein.statistics import frozen_statistics
from rein.training.construction import WorldSpecs
from rein.training.run_directory import RunDirectory, RunDirectoryError, write_atomically

logger = logging.getLogger(__name__)

NO_ENVIRONMENT = ""
"""What `create_environment.env_name` is in a run without an environment."""
_ENDLESS = 2**31


def has_environment() -> bool:
    """Whether the configuration in force names an environment."""
    return bool(get_config_value("create_environment.env_name"))


class OfflinePlan(NamedTuple):
    """What a run learns from data."""

    paths: list[str]
    is_alone: bool
    """Whether the run takes no step in an environment, but for evaluation."""
    specs: WorldSpecs | None
    """Of the world that the data is about, if the run is alone."""

    def teach(self, algorithm: RLAlgorithm, config: TrainerConfig) -> None:
        """Lets an algorithm without an environment learn from the data.

        Raises:
            ValueError: the data does not fit it, or cannot be used.
        """
        assert self.specs is not None
        _check_transformer(algorithm)
        example = _example(algorithm, self.specs)
        algorithm.learning.note_rollout_info(example.rollout_info)
        buffer = load_offline_data(
            self.paths,
            Specs(self.specs.observation, self.specs.action, self.specs.reward),
            algorithm.learning.stored_spec(example),
            config.offline_buffer_length,
            **algorithm.learning.buffer_options(),
            prioritized_sampling=config.priority_replay,
        )
        length = algorithm.learning.settings.sequence_length
        if buffer.total_size < length:
            raise ValueError(f"{self.paths} hold {buffer.total_size} steps, fewer than mini_batch_length={length}")
        data = OfflineData(buffer, config.rl_train_after_update_steps, config.rl_train_every_update_steps)
        algorithm.learn_from(data)
        require_enough(algorithm, data)


def plan_offline(config: TrainerConfig) -> OfflinePlan | None:
    """What the settings say about learning from data; None if there is no data. Nothing is loaded yet.

    Raises:
        ValueError: there is nothing to learn from, or the schedule would never learn from what the run collects.
    """
    updates = config.num_iterations * config.num_updates_per_train_iter
    after, every = config.rl_train_after_update_steps, config.rl_train_every_update_steps
    if config.offline_buffer_dir is None:
        if not has_environment():
            raise ValueError(
                "there is neither an environment nor data to learn from: give --env ID, --data FILE or both"
            )
        if after >= max(updates, _ENDLESS):
            raise ValueError(
                f"rl_train_after_update_steps={after} means to learn from data alone, but there is none: give --data FILE"
            )
        return None
    if not updates and has_environment() and after >= _ENDLESS:
        raise ValueError(
            f"the run ends after num_env_steps={config.num_env_steps}, but rl_train_after_update_steps={after} lets it "
            "take no step: set num_iterations"
        )
    is_alone = not has_environment() or (updates > 0 and after >= updates)
    if is_alone and updates:
        config.num_env_steps = 0  # None will be taken.
    first = -(-after // every) * every
    if not is_alone and updates and first >= updates:
        raise ValueError(
            f"the run makes {updates} updates and begins to act after {after}, but with rl_train_every_update_steps="
            f"{every} the first on what it collects would be number {first}: lower one of them"
        )
    given = config.offline_buffer_dir
    paths = [given] if isinstance(given, str | os.PathLike) else list(given)
    return OfflinePlan([os.fspath(path) for path in paths], is_alone, _specs(paths) if is_alone else None)


def _specs(paths: Sequence[Any]) -> WorldSpecs:
    """Specs of the world that data is about: of the environment if there is one, which the data must fit."""
    if has_environment():
        with create_environment(num_parallel_environments=1) as env:
            return WorldSpecs.of(env)
    directories = [path for path in paths if os.path.isdir(path)]
    if directories:
        raise ValueError(
            f"{directories[0]} is a saved replay buffer, which does not say what actions are possible: give --env ID, or "
            "a data set of `rein record`"
        )
    return WorldSpecs(*DataSet.open(paths[0]).specs)


def _example(algorithm: RLAlgorithm, specs: WorldSpecs) -> Experience:
    """A step as a rollout would store it, [1, ...]; nothing is changed by it, random numbers included."""
    raw = restart(nest.map_structure(_nearest_to_zero, specs.observation), specs.action, specs.reward)
    with _same_random_numbers(), without_learning(algorithm):
        acted = Actor(algorithm, specs.action, 1, "rollout").act(raw, keep=False)
    return make_experience(raw, acted.step, acted.state)


def require_enough(algorithm: RLAlgorithm, data: OfflineData) -> None:
    """Raises `ValueError` if the algorithm needs more of a step than data has; nothing is changed by it."""
    learning = algorithm.learning
    with _same_random_numbers(), frozen_statistics():
        try:
            losses(algorithm, Batch(data.sample(learning), is_offline=True, pre_train=True), None, learning.settings)
        except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
            raise ValueError(
                f"{type(algorithm).__name__} cannot learn from this data, which tells what was seen and done and nothing "
                f"else: {error}"
            ) from error


def _nearest_to_zero(spec: TensorSpec) -> Tensor:
    value = spec.zeros((1,))
    if isinstance(spec, BoundedTensorSpec):
        value = value.clamp(torch.tensor(spec.minimum), torch.tensor(spec.maximum)).to(spec.dtype)
    return value


@contextmanager
def _same_random_numbers() -> Iterator[None]:
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)


def _check_transformer(algorithm: RLAlgorithm) -> None:
    """Refuses statistics that are gathered while acting in a run that never acts."""
    transformer = algorithm.data_transformer
    for part in [] if transformer is None else transformer.modules():
        if getattr(part, "update_mode", None) in ("rollout", "replay"):
            raise ValueError(
                f"{type(part).__name__} with update_mode={part.update_mode!r} would never see this run's data: set "
                'update_mode="pretrain"'
            )


# Policies of runs without an environment.


_KEPT_SPECS = ("observation", "action", "reward")


def save_specs(directory: RunDirectory, specs: WorldSpecs) -> None:
    """Keeps the specs of a run without an environment."""
    content = {name: spec_to_json(getattr(specs, name)) for name in _KEPT_SPECS}
    write_atomically(directory.specs, json.dumps(content, indent=1) + "\n")


def load_specs(directory: RunDirectory) -> WorldSpecs:
    """The specs of a run without an environment."""
    if not directory.specs.exists():
        raise RunDirectoryError(f"{directory.path} names no environment, and has no {directory.specs.name}: give one")
    content = read_json(directory.specs, directory.path)
    return WorldSpecs(*(spec_from_json(content[name]) for name in _KEPT_SPECS))
