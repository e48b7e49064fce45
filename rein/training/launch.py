"""From a conf to a trainer that is ready to go, and from a run directory to one that goes on.

Call these with the configuration of the run in force: `with fresh_configs(): trainer = start_run(...)`.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from rein.agents import Agent
from rein.agents.part_text import read_parts
from rein.config import (
    config,
    get_config_value,
    install_name_resolver,
    is_given,
    load_saved_config,
    parse_config,
    save_config,
)
from rein.envs.create import is_atari_chosen, is_self_play_chosen
from rein.framework import RLAlgorithm, TrainerConfig
from rein.runtime.checkpoint import Checkpointer
from rein.training.agent_tree import describe_agent
from rein.training.offline import has_environment, save_specs
from rein.training.run_directory import RunDirectory, RunDirectoryError, write_atomically
from rein.training.run_lock import LOCK_FILE
from rein.training.supervised import SupervisedTrainer
from rein.training.supervised_runs import start_supervised_run
from rein.training.trainer import Trainer, TrainingObserver
from rein.transforms import FrameStacker, RewardClipping, SelfPlayTransformer

DEFAULT_SEED = 0
_MOST_ATARI_STEPS = 100_000
"""A million frames, as elsewhere, would be seven gigabytes."""


def configure(path: str | os.PathLike[str], overrides: Sequence[str] = ()) -> None:
    """Runs a conf, whose values those given before by `pre_config` and the overrides win over.

    Args:
        path: the conf.
        overrides: `name=value` texts.
    """
    install_name_resolver()
    parse_config(path, overrides)
    fit_environment()


def fit_environment() -> None:
    """Has environments offer actions in the form that the algorithm in force takes, unless the settings say otherwise.

    Atari games get what is usual for them, too: stacked frames, clipped rewards, a replay buffer that fits into memory. In
    board games without an opponent the two sides are played by one policy, see `SelfPlayTransformer`.
    """
    algorithm: Any = _rl_algorithm(get_config_value("TrainerConfig.algorithm_ctor"))
    if algorithm is None or get_config_value("create_environment.action_form") != "any":
        return
    slots = {call.part.slot for call in read_parts(get_config_value("compose_agent.parts"))}
    is_curious = any("intrinsic_reward" in slot for slot in slots)
    replays_single_steps = get_config_value("TrainerConfig.mini_batch_length") == 1  # as PPO
    if is_curious and replays_single_steps and not is_given("TrainerConfig.use_rollout_state"):
        # Some learn from pairs of steps: the state then holds the step before.
        config("TrainerConfig", use_rollout_state=True, raise_if_used=False)
    config(
        "create_environment",
        action_form=getattr(algorithm, "action_form", "several"),
        action_masks=bool(getattr(algorithm, "takes_action_masks", False)) and slots <= {"replay"},
        raise_if_used=False,
    )
    _fit_transformers(algorithm)


def _fit_transformers(algorithm: Any) -> None:
    """Gives runs on Atari and of self-play the data transformers that they need, unless they have some of their own."""
    if get_config_value("TrainerConfig.data_transformer_ctor") is not None:
        return
    if not getattr(algorithm, "values_are_of_player_0", False) and is_self_play_chosen():
        config("TrainerConfig", data_transformer_ctor=SelfPlayTransformer, raise_if_used=False)
    elif is_atari_chosen():
        kept = min(get_config_value("TrainerConfig.replay_buffer_length"), _MOST_ATARI_STEPS)
        config(
            "TrainerConfig",
            data_transformer_ctor=[FrameStacker, RewardClipping],
            replay_buffer_length=kept,
            raise_if_used=False,
        )


def _rl_algorithm(ctor: Any) -> Any:
    """The class of the algorithm that acts, of a constructor, a partial of one, or an agent; None if there is none."""
    given: dict[str, Any] = {}
    while isinstance(ctor, partial):
        given = {**ctor.keywords, **given}
        ctor = ctor.func
    if isinstance(ctor, type) and issubclass(ctor, Agent):
        return _rl_algorithm(
            given.get("rl_algorithm_cls") or get_config_value("rein.agents.agent.Agent.rl_algorithm_cls")
        )
    return ctor


def start_run(
    directory: RunDirectory,
    name: str,
    observers: Sequence[TrainingObserver] = (),
    facts: Mapping[str, Any] | None = None,
    prepare: Callable[[RLAlgorithm], int | None] | None = None,
) -> Trainer:
    """A trainer for the configuration in force, in a new run directory; nothing is left there if it cannot be built.

    Args:
        directory: made by `RunDirectory.create`.
        name: what to call the run, without the seed.
        observers: displays.
        facts: more for run.json, such as the command.
        prepare: see `Trainer`.
    """
    try:
        seed = settle_seed()
        settings = TrainerConfig(root_dir=str(directory.path))
        trainer = Trainer(settings, directory, observers, prepare=prepare)
    except BaseException:
        _give_up(directory)
        raise
    save_config(directory.config)
    if not has_environment():
        save_specs(directory, trainer.specs)
    write_atomically(directory.agent, json.dumps(describe_agent(trainer.algorithm)) + "\n")
    directory.start(
        name=name,
        seed=seed,
        device=str(trainer.run.device),
        algorithm=type(trainer.algorithm).__name__,
        env=env_name(),
        num_env_steps=settings.num_env_steps,
        num_iterations=settings.num_iterations,
        parameters=sum(parameter.numel() for parameter in trainer.algorithm.parameters()),
        **(facts or {}),
    )
    return trainer


def is_supervised() -> bool:
    """Whether the configuration in force trains on labelled data."""
    return get_config_value("TrainerConfig.ml_type") == "sl"


def start_supervised(directory: RunDirectory, name: str, facts: Mapping[str, Any] | None = None) -> SupervisedTrainer:
    """What `start_run` is, for a configuration that trains on labelled data."""
    try:
        return start_supervised_run(directory, name, settle_seed(), facts=facts)
    except BaseException:
        _give_up(directory)
        raise


def resume_run(
    directory: RunDirectory,
    observers: Sequence[TrainingObserver] = (),
    supply: Mapping[str, Any] | None = None,
    prepare: Callable[[RLAlgorithm], int | None] | None = None,
) -> Trainer:
    """A trainer that goes on where the newest checkpoint of a run was saved, or at the beginning if there is none.

    Args:
        directory: made by `RunDirectory.open`.
        observers: displays.
        supply: values that could not be saved with the run, by name.
        prepare: see `Trainer`.

    Raises:
        RunDirectoryError: another process is training it.
    """
    directory.lock()
    try:
        record = directory.record()
        _check_checkpoints(directory, record)
        install_name_resolver()
        load_saved_config(directory.config, supply, directory.is_trusted)
        trainer = Trainer(TrainerConfig(root_dir=str(directory.path)), directory, observers, prepare=prepare)
        if record.get("extended_to"):
            trainer.extend(record["extended_to"])
        if record.get("extended_to_updates"):
            trainer.extend_updates(record["extended_to_updates"])
        directory.mark_running()
    except BaseException:
        directory.unlock()
        raise
    return trainer


def _check_checkpoints(directory: RunDirectory, record: Mapping[str, Any]) -> None:
    """Refuses a run that has come somewhere and has no checkpoint of it: it would begin again among its own records."""
    has_begun = record.get("iterations") or directory.read_evaluations()
    if has_begun and not Checkpointer(directory.checkpoints).steps():
        raise RunDirectoryError(
            f"the checkpoints of {directory.path} are gone, so nothing can go on from there: train anew elsewhere"
        )


def extend_run(trainer: Trainer, num_env_steps: int) -> None:
    """Gives a run a larger budget, also when it is resumed again.

    Args:
        trainer: of the run.
        num_env_steps: environment steps in all.
    """
    done = trainer.run.env_steps
    if num_env_steps <= done:
        raise ValueError(f"the run has already taken {done} environment steps: ask for more than that")
    trainer.directory.update(extended_to=num_env_steps)
    trainer.extend(num_env_steps)


def extend_updates(trainer: Trainer, num_updates: int) -> None:
    """Gives a run that learns from a data set a larger budget, also when it is resumed again.

    Args:
        trainer: of the run.
        num_updates: gradient updates in all.
    """
    if not trainer.algorithm.has_offline:
        raise ValueError("the run has no data set to learn from: train it for environment steps")
    if num_updates <= trainer.num_updates:
        raise ValueError(f"the run has already made {trainer.num_updates} updates: ask for more than that")
    trainer.directory.update(extended_to_updates=num_updates)
    trainer.extend_updates(num_updates)


def extend(trainer: Trainer, num_env_steps: int | None, num_updates: int | None) -> None:
    """Gives a run a larger budget, in environment steps or in updates.

    Args:
        trainer: of the run.
        num_env_steps: environment steps in all, or None.
        num_updates: gradient updates in all, or None.
    """
    if (num_env_steps is None) is (num_updates is None):
        raise ValueError("give environment steps or updates, one of them")
    if num_updates is not None:
        extend_updates(trainer, num_updates)
    elif trainer.env is None:
        raise ValueError("the run learns from a data set alone and takes no environment steps: give updates")
    else:
        assert num_env_steps is not None
        extend_run(trainer, num_env_steps)


def settle_seed() -> int:
    """The seed of the configuration in force; if it has none, `DEFAULT_SEED`, which it has from then on."""
    seed = get_config_value("TrainerConfig.random_seed")
    if seed is None:
        seed = DEFAULT_SEED
        config("TrainerConfig", random_seed=seed, raise_if_used=False)
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ValueError(f"TrainerConfig.random_seed is {seed!r}: give an integer that is not negative")
    return seed


def env_name() -> str:
    """What the configuration in force calls its environment."""
    source = get_config_value("create_environment.env_name") or "none"
    return source if isinstance(source, str) else getattr(source, "__qualname__", repr(source))


def numbered_directory(root: str | os.PathLike[str], stem: str) -> RunDirectory:
    """A new directory `root/stem-N` with the first free number, also if others ask at the same time.

    Args:
        root: made if it does not exist.
        stem: what the runs have in common.
    """
    for number in count(1):
        path = Path(root) / f"{stem}-{number}"
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        return RunDirectory.create(path)
    raise AssertionError("unreachable")


def _give_up(directory: RunDirectory) -> None:
    """Removes the lock and the folders of a run that hold nothing, and its directory if that leaves it empty."""
    directory.unlock()
    path = directory.path
    if not (path / "run.json").exists():
        (path / LOCK_FILE).unlink(missing_ok=True)
    for folder, _, _ in sorted(os.walk(path), reverse=True):
        try:
            os.rmdir(folder)
        except OSError:
            continue
