"""Rein in a few lines, for people who never write a conf.

    agent = rein.make("ppo", env="CartPole-v1")
    agent.train(50_000)
    print(agent.evaluate(10).mean)
    agent.save("my_agent")
    action = rein.load("my_agent").predict(observation)

An agent is a run: the same confs, algorithm and trainer as behind `rein train`, and what it saves is a run directory that
`rein evaluate`, `rein play` and `rein resume` understand.
"""

import logging
import os
import shutil
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self, overload

import gymnasium as gym
from gymnasium.vector import VectorEnv
from numpy.typing import ArrayLike

from rein.agents.part_text import read_parts
from rein.config import Configs, fresh_configs, install_name_resolver, pre_config, save_config, use_configs
from rein.config.errors import SavedConfigError
from rein.config.plain_files import read_json
from rein.distributed import Scheme, attach
from rein.envs.instances import CopiesOf, TheBatch
from rein.framework import RLAlgorithm
from rein.nest import Nest
from rein.runtime import get_default_device, get_rng_state, set_default_device, set_rng_state
from rein.runtime.checkpoint import Checkpointer
from rein.runtime.checkpoint.durable import put_in_place
from rein.training.console import open_display
from rein.training.ensemble_data import ensemble_settings, ensemble_supply
from rein.training.ensemble_handle import EnsembleHandle
from rein.training.evaluation import EvaluationResult
from rein.training.launch import configure, extend, resume_run, start_run, start_supervised
from rein.training.offline import NO_ENVIRONMENT
from rein.training.player import record_video
from rein.training.policy import Policy, load_policy
from rein.training.prediction import Predictor
from rein.training.report import write_report
from rein.training.run_directory import RunDirectory
from rein.training.trainer import Trainer, TrainingResult
from rein.zoo import ZooEntry, find_algorithm, task_entries

EnvSource = str | Callable[..., gym.Env[Any, Any]] | gym.Env[Any, Any] | VectorEnv[Any, Any, Any]
DataSource = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]

logger = logging.getLogger("rein")

_ENV_NAME = "create_environment.env_name"


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
    **overrides: Any,
) -> "AgentHandle": ...
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
    **overrides: Any,
) -> "AgentHandle | EnsembleHandle":
    """A new agent, ready to train.

    Args:
        algorithm: a name from `rein list algorithms`, such as "ppo", or from `rein list zoo`, such as "ppo_cartpole".
        env: a Gymnasium id, a `gymnasium.Env` class, or a function that returns a `gymnasium.Env`; an instance, which is
            copied for each world; or a `gymnasium.vector.VectorEnv`, which is used itself, and for training only. An entry
            of the zoo brings its own, and with data sets there need not be one, but to evaluate.
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
        scheme: who collects and who computes gradients: "sync", "async", or settings of `Scheme` such as `{"kind": "sync",
            "collectors": 2, "backend": "process"}`.
        **overrides: the same for names without dots, for example `learning_rate=1e-3`. Environments live in this
            process unless `num_workers` or `backend` is given; a script that does must be guarded by
            `if __name__ == "__main__":`.

    Raises:
        ValueError: a name is unknown (the message suggests the nearest), or the settings or parts do not fit together.
    """
    env, worlds = _source_of(env)
    entry = task_entries()[algorithm] if algorithm in task_entries() else find_algorithm(algorithm)
    if entry.is_supervised:
        return _make_ensemble(entry, env, data, outliers, seed, directory, device, {**(settings or {}), **overrides})
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
        _ENV_NAME: env,
        "TrainerConfig.offline_buffer_dir": None if data is None else _absolute(data),
        "compose_agent.parts": chosen or None,
        "TrainerConfig.random_seed": seed,
        **_scheme_settings(scheme),
    }
    given = {**worlds, **(settings or {}), **overrides}
    given |= {name: one for name, one in arguments.items() if one is not None}
    if not {"backend", "num_workers"} & {name.rpartition(".")[2] for name in given}:
        # Worker processes would run a script that has no `if __name__ == "__main__":` again.
        given["create_environment.num_workers"] = 1
    temporary = TemporaryDirectory(prefix="rein-") if directory is None else None
    path = temporary.name if temporary is not None else directory
    random_numbers = RandomNumbers()
    with fresh_configs() as configs, _device(device), random_numbers:
        install_name_resolver()
        pre_config(given, place="rein.make")
        configure(entry.path)
        run_directory = RunDirectory.create(path)  # type: ignore[arg-type]
        changes = [f"{name}={value!r}" for name, value in sorted(given.items()) if name != "TrainerConfig.random_seed"]
        facts = {"conf": str(entry.path), "parts": chosen, "overrides": changes}
        trainer = start_run(run_directory, entry.name, facts=facts, prepare=attach)
    return AgentHandle(_policy_of(trainer, configs), trainer.directory, trainer, temporary, random_numbers)


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


@overload
def load(
    path: str | os.PathLike[str],
    env: EnvSource | None = None,
    *,
    data: None = None,
    checkpoint: int | None = None,
    trust: bool = False,
) -> "AgentHandle": ...
@overload
def load(
    path: str | os.PathLike[str], env: None = None, *, data: Any, checkpoint: int | None = None, trust: bool = False
) -> EnsembleHandle: ...
def load(
    path: str | os.PathLike[str],
    env: EnvSource | None = None,
    *,
    data: Any = None,
    checkpoint: int | None = None,
    trust: bool = False,
) -> "AgentHandle | EnsembleHandle":
    """The agent that `AgentHandle.save` or `rein train` left in a directory.

    Args:
        path: the directory; it is not changed, also if the agent is trained further.
        env: needed if the agent was made with a function or class as environment; else replaces its environment.
        data: of a learner on labelled data, to train or evaluate it further; it predicts without.
        checkpoint: iteration of the checkpoint; None is the newest.
        trust: run code that was saved with the agent or that it names, such as confs with functions of their own; only
            for agents whose author you trust. Without, nothing that comes from the directory is run.
    """
    directory = RunDirectory.open(path, trust)
    record = directory.record()
    if record.get("ml_type") == "sl":
        supplied = ensemble_supply(record, list(_not_saved(directory)), data)
        return EnsembleHandle.load(directory, RandomNumbers(), checkpoint, supplied)
    supply = {} if env is None else {_ENV_NAME: env}
    try:
        policy = load_policy(directory, checkpoint, supply)
    except SavedConfigError as error:
        if env is None and _ENV_NAME in _not_saved(directory):
            raise ValueError(
                f"{path} was trained on {_not_saved(directory)[_ENV_NAME]}, which cannot be saved: give it again, "
                "rein.load(path, env=...)"
            ) from error
        raise
    return AgentHandle(policy, directory, None, None, RandomNumbers(), supply)


class AgentHandle:
    """A policy that can be trained, evaluated, asked and saved; made by `rein.make` and `rein.load`.

    Use it in a `with` statement, or call `close`, to end its environments early.
    """

    def __init__(
        self,
        policy: Policy,
        directory: RunDirectory,
        trainer: Trainer | None,
        temporary: "TemporaryDirectory[str] | None",
        random_numbers: "RandomNumbers",
        supply: Mapping[str, Any] | None = None,
    ) -> None:
        self._policy = policy
        self._directory = directory
        self._trainer = trainer
        self._temporary = temporary
        self._random_numbers = random_numbers
        self._supply = dict(supply or {})
        self._actor = _predictor_of(policy)
        self._closer = None if trainer is None else weakref.finalize(self, trainer.close)

    @property
    def algorithm(self) -> RLAlgorithm:
        """The algorithm, with its networks."""
        return self._policy.algorithm

    @property
    def policy(self) -> Policy:
        """What acts, with the configuration that its environments are made by; for `rein.training`."""
        return self._policy

    @property
    def directory(self) -> Path:
        """Where the records of this agent are: summaries, evaluations, checkpoints."""
        return self._directory.path

    @property
    def state(self) -> Nest:
        """Recurrent state after the last `predict`, a nest of tensors [B, ...]; None before the first."""
        return self._actor.state

    def train(
        self, num_env_steps: int | None = None, progress: bool | None = None, *, updates: int | None = None
    ) -> TrainingResult:
        """Trains for so many more environment steps or updates; schedules run over all that was asked for so far.

        The first Ctrl-C, or "interrupt" of a notebook, finishes the iteration and returns.

        Args:
            num_env_steps: steps of all environments together, on top of those already taken.
            progress: show a progress bar; None shows it on terminals and in notebooks only.
            updates: for an agent that learns from data: gradient updates, on top of those already made, rounded up to
                whole iterations.
        """
        if (num_env_steps is None) is (updates is None):
            raise ValueError("give num_env_steps, or updates for an agent that learns from data")
        asked = {"num_env_steps": num_env_steps, "updates": updates}
        for name, number in asked.items():
            if number is not None and number < 1:
                raise ValueError(f"{name} is {number}: give at least 1")
        trainer = self._require_trainer()
        with use_configs(self._policy.configs), self._random_numbers:
            steps = None if num_env_steps is None else trainer.run.env_steps + num_env_steps
            extend(trainer, steps, None if updates is None else trainer.num_updates + updates)
            shown = _is_interactive() if progress is None else progress
            with open_display(trainer) if shown else nullcontext():
                result = trainer.train()
        self._actor.forget()
        return result

    def evaluate(self, num_episodes: int = 10, seed: int | None = None) -> EvaluationResult:
        """Returns and lengths of whole episodes of the deterministic policy, on seeds that training never uses.

        Args:
            num_episodes: how many.
            seed: chooses other held-out seeds.
        """
        return self._policy.evaluate(num_episodes, seed)

    def predict(
        self,
        observation: Any,
        state: Nest = None,
        episode_start: ArrayLike | None = None,
        action_mask: ArrayLike | None = None,
    ) -> Any:
        """The deterministic action for an observation as Gymnasium gives it, or a batch of actions for a batch.

        A recurrent policy remembers what it saw since the episode began: say so with `episode_start=True` at the first
        observation of each further episode. A memoryless policy needs nothing of this.

        Args:
            observation: one observation, or arrays with a batch dimension in front.
            state: recurrent state to act from, see `AgentHandle.state`; None goes on from the last `predict`.
            episode_start: whether an episode begins here, a bool or [B]; None is False but for the very first call.
            action_mask: valid actions, [n] or [B, n], in a world that tells them beside the observation, such as
                `info["action_mask"]`.
        """
        return self._actor.act(observation, state, episode_start, action_mask)

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> Path:
        """Saves all that is needed to act and to train further, and returns the directory.

        Args:
            path: a new directory.
            overwrite: replace an agent or run that is there.
        """
        target = Path(path)
        if overwrite and (target / "run.json").exists():
            return self._replace(target)
        self._save_to(RunDirectory.create(target))
        return target

    def _save_to(self, directory: RunDirectory) -> None:
        if self._trainer is not None:
            with self._random_numbers:
                self._trainer.save()
        with use_configs(self._policy.configs):
            save_config(directory.config)
        for kept in ("evaluations", "agent", "specs"):
            if getattr(self._directory, kept).exists():
                shutil.copy(getattr(self._directory, kept), getattr(directory, kept))
        if self._directory.summaries.exists():
            shutil.copytree(self._directory.summaries, directory.summaries)
        newest = self._newest_checkpoint()
        shutil.copytree(newest, directory.checkpoints / newest.name)
        # Last, since a directory with it counts as complete.
        directory.adopt({**self._directory.record(), "status": "saved"})

    def _replace(self, target: Path) -> Path:
        """Saves beside `target` and exchanges the two, so that there is always a complete agent."""
        beside = target.with_name(f".{target.name}.saving")
        shutil.rmtree(beside, ignore_errors=True)  # Left by a save that was killed.
        try:
            self._save_to(RunDirectory.create(beside))
            put_in_place(beside, target)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
        return target

    def record_video(self, path: str | os.PathLike[str], num_episodes: int = 1, seed: int | None = None) -> Path:
        """Records whole episodes as .mp4 or .gif, and returns the path.

        Args:
            path: the file.
            num_episodes: one after the other.
            seed: chooses other held-out seeds.
        """
        return record_video(self._policy, Path(path), num_episodes, seed).path

    def report(self) -> Path:
        """Writes the report of training so far, one HTML file, and returns its path."""
        return write_report(self._directory)

    def close(self) -> None:
        """Ends the environments; predicting and evaluating still work, training does not."""
        if self._closer is not None:
            self._closer()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _newest_checkpoint(self) -> Path:
        checkpointer = Checkpointer(self._directory.checkpoints)
        step = self._policy.checkpoint if self._trainer is None else checkpointer.latest_step()
        assert step is not None
        return checkpointer.path(step)

    def _require_trainer(self) -> Trainer:
        """The trainer; a loaded agent gets one that works on a copy of the directory it was loaded from."""
        if self._closer is not None and not self._closer.alive:
            raise ValueError("this agent was closed: save it before that, and train what rein.load gives")
        if self._trainer is None:
            self._temporary = TemporaryDirectory(prefix="rein-")
            copy = Path(self._temporary.name) / "run"
            newest = self._newest_checkpoint()
            shutil.copytree(self.directory, copy, ignore=shutil.ignore_patterns("checkpoints", "videos"))
            shutil.copytree(newest, copy / "checkpoints" / newest.name)
            self._directory = RunDirectory.open(copy, self._directory.is_trusted)
            with fresh_configs() as configs, self._random_numbers:
                self._trainer = resume_run(self._directory, supply=self._supply, prepare=attach)
            self._policy = _policy_of(self._trainer, configs)
            self._actor = _predictor_of(self._policy)
            self._closer = weakref.finalize(self, self._trainer.close)
        return self._trainer


class RandomNumbers:
    """Random numbers of an agent's own: inside the block they go on where the last block ended, outside nothing changes."""

    def __init__(self) -> None:
        self._inside: dict[str, Any] | None = None
        self._outside: dict[str, Any] = {}

    def __enter__(self) -> None:
        self._outside = get_rng_state()
        if self._inside is not None:
            set_rng_state(self._inside)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._inside = get_rng_state()
        set_rng_state(self._outside)


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


def _policy_of(trainer: Trainer, configs: Configs) -> Policy:
    specs = trainer.specs
    return Policy(trainer.algorithm, specs.observation, configs, trainer.run.seed, fitted_from=specs.fitted_from)


def _predictor_of(policy: Policy) -> Predictor:
    return Predictor(policy.algorithm, policy.observation_spec, policy.algorithm.action_spec, policy.fitted_from)


def _not_saved(directory: RunDirectory) -> dict[str, str]:
    index = directory.config / "overrides.json"
    content = read_json(index, directory.path) if index.exists() else {}
    found: dict[str, str] = content.get("not_saved", {})
    return found


def _is_interactive() -> bool:
    from rich.console import Console

    console = Console()
    return console.is_terminal or console.is_jupyter


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
