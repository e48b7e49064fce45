"""`rein.make`: new agents."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, overload

import gymnasium as gym
from gymnasium.vector import VectorEnv

from rein.agents.part_text import read_parts
from rein.api.agent import AgentHandle, policy_of
from rein.api.own_random_numbers import RandomNumbers
from rein.config import fresh_configs, install_name_resolver, pre_config
from rein.distributed import Scheme, attach
from rein.envs.checking import check_env
from rein.envs.instances import CopiesOf, TheBatch, turn_games
from rein.runtime import get_default_device, set_default_device
from rein.training.ensemble_data import ensemble_settings
from rein.training.ensemble_handle import EnsembleHandle
from rein.training.launch import configure, start_run, start_supervised
from rein.training.offline import NO_ENVIRONMENT
from rein.training.run_directory import RunDirectory
from rein.training.supplying import ENV_NAME
from rein.zoo import ZooEntry, find_algorithm, task_entries

EnvSource = str | Callable[..., gym.Env[Any, Any]] | gym.Env[Any, Any] | VectorEnv[Any, Any, Any]
DataSource = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

logger = logging.getLogger("rein")

_FIRST_STEPS = 10


@overload
def make(
    algorithm: str,
    env: EnvSource | None = None,
    *,
    data: None = None,
    outliers: None = None,
    parts: Sequence[str] = (),
    seed: int | None = None,
    directory: str | os.PathLike[str] | None = None,
    device: str | None = None,
    settings: Mapping[str, Any] | None = None,
    scheme: str | Mapping[str, Any] | None = None,
    sinks: Sequence[Any] = (),
    **overrides: Any,
) -> AgentHandle: ...
@overload
def make(
    algorithm: str,
    env: EnvSource | None = None,
    *,
    data: Any,
    outliers: Any = None,
    parts: Sequence[str] = (),
    seed: int | None = None,
    directory: str | os.PathLike[str] | None = None,
    device: str | None = None,
    settings: Mapping[str, Any] | None = None,
    scheme: str | Mapping[str, Any] | None = None,
    sinks: Sequence[Any] = (),
    **overrides: Any,
) -> Any: ...
def make(
    algorithm: str,
    env: EnvSource | None = None,
    *,
    data: Any = None,
    outliers: Any = None,
    parts: Sequence[str] = (),
    seed: int | None = None,
    directory: str | os.PathLike[str] | None = None,
    device: str | None = None,
    settings: Mapping[str, Any] | None = None,
    scheme: str | Mapping[str, Any] | None = None,
    sinks: Sequence[Any] = (),
    **overrides: Any,
) -> AgentHandle | EnsembleHandle:
    """A new agent, ready to train.

    Args:
        algorithm: a name from `rein list algorithms`, such as "ppo", or from `rein list zoo`, such as "ppo_cartpole".
        env: a Gymnasium id, a `gymnasium.Env` class, or a function that returns a `gymnasium.Env`; an instance, which is
            copied for each world; a `gymnasium.vector.VectorEnv`, which is used itself, and for training only; or an AEC game
            of two from PettingZoo, as an instance or a module such as `connect_four_v3`. An entry of the zoo brings its own,
            and with data sets there need not be one, but to evaluate.
        data: what to learn from: data set(s) of `rein record`, or, for an algorithm that learns from labelled data such as
            "hypernetwork": arrays (examples, labels), a torch data set or loader, a pair of those to train and to test on,
            or "digits". Labels of floats make a regression.
        outliers: of labelled data: examples of another kind, in the same forms, to judge uncertainty by.
        parts: what to compose the algorithm with, such as `["rnd", "entropy_target=-1", "icm(coef=0.5)"]`; `rein list
            parts` shows them.
        seed: of everything random; 0 unless the conf says otherwise.
        directory: where to leave the records of training; None is a temporary directory.
        device: "cpu", "cuda", ...
        settings: values of any settings by name, for example `{"PPOLoss.gamma": 0.98}`.
        scheme: who collects and who computes gradients: a name such as "sync", "async" or "impala", or settings of
            `Scheme` such as `{"kind": "sync", "collectors": 2, "backend": "process"}`.
        sinks: where numbers go besides TensorBoard and `scalars.jsonl`: "csv", "wandb(mode='offline')", "mlflow", or a
            `SummaryWriter` of your own.
        **overrides: the same for names without dots, for example `learning_rate=1e-3`. Environments live in this
            process unless `num_workers` or `backend` is given; a script that does must be guarded by
            `if __name__ == "__main__":`.

    Raises:
        ValueError: a name is unknown (the message suggests the nearest), or the settings or parts do not fit together.
    """
    env, worlds = _source_of(env)
    entry = task_entries()[algorithm] if algorithm in task_entries() else find_algorithm(algorithm)
    if entry.is_supervised:
        more = {"create_sinks.sinks": list(sinks)} if sinks else {}
        return _make_ensemble(
            entry, env, data, outliers, seed, directory, device, {**(settings or {}), **more, **overrides}
        )
    if outliers is not None:
        raise ValueError(f"{entry.name} learns to act: outliers are for algorithms that learn from labelled data")
    if data is None and entry.facts.get("learns_from") == "data" and entry.env is None:
        raise ValueError(f'rein.make("{algorithm}") learns from data: add data="FILE", which `rein record` makes')
    if env is None and entry.env is None:
        if data is None:
            raise ValueError(f'rein.make("{algorithm}") needs an environment: add env="CartPole-v1"')
        env = NO_ENVIRONMENT
    chosen = [call.text for call in read_parts(parts)]
    arguments = {
        ENV_NAME: env,
        "TrainerConfig.offline_buffer_dir": None if data is None else _absolute(data),
        "compose_agent.parts": chosen or None,
        "TrainerConfig.random_seed": seed,
        "create_sinks.sinks": list(sinks) or None,
        **_scheme_settings(scheme),
    }
    given = {**(settings or {}), **overrides}
    said = {name.rpartition(".")[2] for name in given}
    given = {name: one for name, one in worlds.items() if name.rpartition(".")[2] not in said} | given
    given |= {name: one for name, one in arguments.items() if one is not None}
    if not {"backend", "num_workers"} & {name.rpartition(".")[2] for name in given}:
        # Worker processes would run a script that has no `if __name__ == "__main__":` again.
        given["create_environment.num_workers"] = 1
    temporary = TemporaryDirectory(prefix="rein-") if directory is None else None
    path = temporary.name if temporary is not None else directory
    random_numbers = RandomNumbers()
    with fresh_configs() as configs, _device(device), random_numbers:
        _tell_faults(env, given)
        install_name_resolver()
        pre_config(given, place="rein.make")
        configure(entry.path)
        run_directory = RunDirectory.create(path)  # type: ignore[arg-type]
        changes = [f"{name}={value!r}" for name, value in sorted(given.items()) if name != "TrainerConfig.random_seed"]
        facts = {"conf": str(entry.path), "parts": chosen, "overrides": changes}
        trainer = start_run(run_directory, entry.name, facts=facts, prepare=attach)
    return AgentHandle(policy_of(trainer, configs), trainer.directory, trainer, temporary, random_numbers)


def _scheme_settings(scheme: str | Mapping[str, Any] | None) -> dict[str, Any]:
    """The settings of a scheme by name, checked before anything starts."""
    if scheme is None:
        return {}
    given = {"kind": scheme} if isinstance(scheme, str) else dict(scheme)
    Scheme(**given)
    return {f"Scheme.{name}": value for name, value in given.items()}


def _make_ensemble(
    entry: ZooEntry,
    env: EnvSource | None,
    data: Any,
    outliers: Any,
    seed: int | None,
    directory: str | os.PathLike[str] | None,
    device: str | None,
    given: dict[str, Any],
) -> EnsembleHandle:
    """A learner on labelled data."""
    if env is not None:
        raise ValueError(f"{entry.name} learns from labelled data: give data=... instead of env")
    if data is None and "epochs" not in entry.facts:
        raise ValueError(f'rein.make("{entry.name}") needs data: add data=(examples, labels), or data="digits"')
    chosen = ensemble_settings(entry.algorithm, data, outliers)
    changes = [f"{name}={value!r}" for name, value in sorted(given.items())]
    given = {**chosen.settings, **given}
    if seed is not None:
        given["TrainerConfig.random_seed"] = seed
    temporary = TemporaryDirectory(prefix="rein-") if directory is None else None
    random_numbers = RandomNumbers()
    with fresh_configs() as configs, _device(device), random_numbers:
        install_name_resolver()
        pre_config(given, place="rein.make")
        configure(entry.path)
        run_directory = RunDirectory.create(temporary.name if directory is None else directory)  # type: ignore[union-attr]
        facts = {"conf": str(entry.path), "overrides": changes, **chosen.facts}
        trainer = start_supervised(run_directory, entry.name, facts=facts)
    return EnsembleHandle(trainer.algorithm, run_directory, configs, trainer, random_numbers, temporary)


def _absolute(data: DataSource) -> list[str]:
    """Data sets by paths that are valid wherever the run is resumed from."""
    paths = [data] if isinstance(data, str | os.PathLike) else list(data)
    if not all(isinstance(path, str | os.PathLike) for path in paths):
        raise ValueError(
            "an algorithm that learns to act takes data sets of `rein record`: give their paths; arrays are for algorithms "
            'that learn from labelled data, such as "hypernetwork"'
        )
    return [str(Path(path).resolve()) for path in paths]


def _source_of(env: EnvSource | None) -> tuple[Any, dict[str, Any]]:
    """What makes the worlds, and the settings that follow from it."""
    games = turn_games(env)
    if games is not None:
        return games, {}
    if isinstance(env, VectorEnv):
        logger.info("env is a VectorEnv of %d worlds: they are trained in, and there is no evaluation", env.num_envs)
        return TheBatch(env), {
            "create_environment.backend": "vector",
            "create_environment.num_parallel_environments": env.num_envs,
            "TrainerConfig.evaluate": False,
        }
    if isinstance(env, gym.Env):
        logger.info("env is an instance: each world is a copy of it")
        return CopiesOf(env), {}
    return env, {}


def _tell_faults(env: Any, settings: Mapping[str, Any]) -> None:
    """Looks for what is wrong with a world of the user's own, by a few steps; training names each fault when it happens."""
    if isinstance(env, str | TheBatch) or not callable(env) or settings.get("create_environment.backend") == "vector":
        return
    kwargs = next((value for name, value in settings.items() if name.rpartition(".")[2] == "env_kwargs"), None)
    for fault in check_env(env, _FIRST_STEPS, kwargs, quick=True).faults:
        logger.warning("environment: %s (`rein check-env` looks further)", fault)


@contextmanager
def _device(device: str | None) -> Iterator[None]:
    """Makes runs that are created in the block use a device."""
    if device is None:
        yield
        return
    before = get_default_device()
    set_default_device(device)
    try:
        yield
    finally:
        set_default_device(before)
