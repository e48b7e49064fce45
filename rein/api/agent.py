"""`AgentHandle`: a policy that can be trained, evaluated, asked and saved."""

import os
import shutil
import weakref
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from numpy.typing import ArrayLike

from rein.api.own_random_numbers import RandomNumbers
from rein.config import Configs, fresh_configs, save_config, use_configs
from rein.distributed import attach
from rein.framework import RLAlgorithm
from rein.nest import Nest
from rein.runtime.checkpoint import Checkpointer
from rein.runtime.checkpoint.durable import put_in_place
from rein.runtime.run import Run
from rein.training.callbacks import create_callbacks
from rein.training.console import open_display
from rein.training.evaluation import EvaluationResult
from rein.training.launch import extend, resume_run
from rein.training.notebook import Picture, Video, card, draw_curve, headline, in_notebook
from rein.training.player import record_video
from rein.training.policy import Policy
from rein.training.prediction import Predictor
from rein.training.report import write_report
from rein.training.run_directory import RunDirectory
from rein.training.supplying import say_what_to_supply
from rein.training.trainer import Trainer, TrainingResult

if TYPE_CHECKING:
    from rein.export import Export


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
        random_numbers: RandomNumbers,
        supply: Mapping[str, Any] | None = None,
        kept_as: str | None = None,
    ) -> None:
        self._directory = directory
        self._trainer = trainer
        self._temporary = temporary
        self._random_numbers = random_numbers
        self._supply = dict(supply or {})
        self._kept_as = kept_as
        self._drawn_numbers = RandomNumbers()
        self._use_policy(policy)
        self._closer = None if trainer is None else weakref.finalize(self, trainer.close)

    def _use_policy(self, policy: Policy) -> None:
        """Acts by `policy` from now on."""
        self._policy = policy
        spec, action_spec = policy.observation_spec, policy.algorithm.action_spec
        self._actor = self._latest = Predictor(policy.algorithm, spec, action_spec, policy.fitted_from)
        self._explorer = Predictor(policy.algorithm, spec, action_spec, policy.fitted_from, "rollout")

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
        return self._latest.state

    def train(
        self,
        num_env_steps: int | None = None,
        progress: bool | None = None,
        *,
        updates: int | None = None,
        callbacks: Sequence[Any] = (),
    ) -> TrainingResult:
        """Trains for so many more environment steps or updates; schedules run over all that was asked for so far.

        The first Ctrl-C, or "interrupt" of a notebook, finishes the iteration and returns.

        Args:
            num_env_steps: steps of all environments together, on top of those already taken.
            progress: show a progress bar; None shows it on terminals and in notebooks only.
            updates: for an agent that learns from data: gradient updates, on top of those already made, rounded up to
                whole iterations.
            callbacks: see this training go on, and may end it: objects of `rein.training.callbacks.Callback`, or texts such
                as "keep_best" and "stop_at_return=475". They come after those of the settings, and what they say of their
                state is saved with the agent.
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
            more = create_callbacks(True, callbacks=callbacks)
            trainer.callbacks.add(more)
            try:
                with open_display(trainer) if shown else nullcontext():
                    result = trainer.train()
            finally:
                trainer.callbacks.remove(more)
        self._actor.forget()
        self._explorer.forget()
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
        deterministic: bool = True,
    ) -> Any:
        """The action for an observation as Gymnasium gives it, or a batch of actions for a batch.

        A recurrent policy remembers what it saw since the episode began: say so with `episode_start=True` at the first
        observation of each further episode. A memoryless policy needs nothing of this.

        Args:
            observation: one observation, or arrays with a batch dimension in front.
            state: recurrent state to act from, see `AgentHandle.state`; None goes on from the last `predict`.
            episode_start: whether an episode begins here, a bool or [B]; None is False but for the very first call.
            action_mask: valid actions, [n] or [B, n], in a world that tells them beside the observation, such as
                `info["action_mask"]`.
            deterministic: whether to take the best action; else one is drawn as in training: from the distribution of a
                stochastic policy, with the exploration of another. The memory of a recurrent policy is kept apart.

        Raises:
            ValueError: the observation does not fit, or has NaN in it.
        """
        if deterministic:
            self._latest = self._actor
            return self._actor.act(observation, state, episode_start, action_mask)
        self._latest = self._explorer
        with self._drawn_numbers, use_configs(self._policy.configs), Run(seed=self._policy.seed):
            return self._explorer.act(observation, state, episode_start, action_mask)

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> Path:
        """Saves all that is needed to act and to train further, and returns the directory.

        Networks, losses, functions and worlds of your own are saved by their names in the modules that they are from. What
        has no such name, because a script, a notebook or a function defines it, is named in a warning: `rein.load` has to
        be given it again.

        Args:
            path: a new directory.
            overwrite: replace an agent or run that is there.
        """
        target = Path(path)
        if overwrite and (target / "run.json").exists():
            return self._replace(target)
        directory = RunDirectory.create(target)
        self._save_to(directory)
        say_what_to_supply(directory)
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
        for folder in (self._directory.summaries, self._directory.path / "policies"):
            if folder.exists():
                shutil.copytree(folder, directory.path / folder.name)
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
            say_what_to_supply(RunDirectory(target))
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
        return Video(record_video(self._policy, Path(path), num_episodes, seed).path)

    def export(
        self,
        path: str | os.PathLike[str],
        format: str | None = None,
        check_steps: int = 1000,
        deterministic: bool = True,
    ) -> "Export":
        """Writes the complete policy into one file that needs no Rein, and compares the file with `predict`.

        Args:
            path: the file, ending in .onnx or .pt2 unless the format is given.
            format: "onnx" or "torch".
            check_steps: how long to compare, in steps of each of two worlds; 0 does not.
            deterministic: as in `predict`; the random numbers of an action that is drawn are inputs of the file.

        Returns:
            The path, what goes in and comes out, and `parity`, whose `holds` says whether both do the same.
        """
        from rein.export import export_policy

        with self._random_numbers:
            facts = {"run": self._directory.record().get("name")}
            return export_policy(self._policy, path, format, check_steps, deterministic, facts)

    def plot(self, metric: str | None = None) -> Picture:
        """A curve of training so far, which notebooks show and `save("curve.svg")` writes.

        Args:
            metric: name of a recorded number, such as "Metrics/AverageEpisodeLength"; None is the return of evaluations
                or, without any, of training.
        """
        self._flush()
        return draw_curve(self._directory, metric)

    def _flush(self) -> None:
        if self._trainer is not None and self._trainer.run.writer is not None:
            self._trainer.run.writer.flush()

    def __repr__(self) -> str:
        return f"<{headline(self._directory)}>"

    def _repr_html_(self) -> str:
        self._flush()
        return card(self._directory)

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
        if self._kept_as is not None:
            assert self._policy.checkpoint is not None
            return Checkpointer(self._directory.policies(self._kept_as)).path(self._policy.checkpoint)
        checkpointer = Checkpointer(self._directory.checkpoints)
        step = self._policy.checkpoint if self._trainer is None else checkpointer.latest_step()
        assert step is not None
        return checkpointer.path(step)

    def _require_trainer(self) -> Trainer:
        """The trainer; a loaded agent gets one that works on a copy of the directory it was loaded from."""
        if self._closer is not None and not self._closer.alive:
            raise ValueError("this agent was closed: save it before that, and train what rein.load gives")
        if self._kept_as is not None:
            raise ValueError(
                f"this is the policy that was kept as {self._kept_as!r}, to act only: train what rein.load gives without "
                "checkpoint="
            )
        if self._trainer is None:
            self._temporary = TemporaryDirectory(prefix="rein-")
            copy = Path(self._temporary.name) / "run"
            newest = self._newest_checkpoint()
            shutil.copytree(self.directory, copy, ignore=shutil.ignore_patterns("checkpoints", "videos"))
            shutil.copytree(newest, copy / "checkpoints" / newest.name)
            self._directory = RunDirectory.open(copy, self._directory.is_trusted)
            with fresh_configs() as configs, self._random_numbers:
                self._trainer = resume_run(self._directory, supply=self._supply, prepare=attach)
            self._use_policy(policy_of(self._trainer, configs))
            self._closer = weakref.finalize(self, self._trainer.close)
        return self._trainer


def policy_of(trainer: Trainer, configs: Configs) -> Policy:
    """The policy that a trainer trains."""
    specs = trainer.specs
    return Policy(trainer.algorithm, specs.observation, configs, trainer.run.seed, fitted_from=specs.fitted_from)


def _is_interactive() -> bool:
    from rich.console import Console

    return Console().is_terminal or in_notebook()
