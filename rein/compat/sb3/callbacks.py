"""Callbacks: what a script has done at every step while a model trains."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rein.compat.sb3.records import Logger
from rein.compat.sb3.vec_env import VecEnv


class BaseCallback(ABC):
    """Called while a model trains; subclasses define `_on_step` and what else they need.

    Attributes:
        model: the model.
        n_calls: steps of the batch seen so far.
        num_timesteps: steps of all its worlds together.
        locals: of the step: `self`, `actions`, `rewards`, `dones`, `infos`, `new_obs`, `n_steps`, `total_timesteps`, `env`.
        globals: nothing of use.
        parent: the callback that calls this one, if another does.
    """

    model: Any

    def __init__(self, verbose: int = 0) -> None:
        """Begins with no steps.

        Args:
            verbose: how much to print.
        """
        super().__init__()
        self.n_calls = 0
        self.num_timesteps = 0
        self.verbose = verbose
        self.locals: dict[str, Any] = {}
        self.globals: dict[str, Any] = {}
        self.parent: BaseCallback | None = None

    @property
    def training_env(self) -> VecEnv:
        """The batch that is trained in."""
        env = self.model.get_env()
        assert env is not None
        return env

    @property
    def logger(self) -> Logger:
        """The logger of the model."""
        return self.model.logger

    def init_callback(self, model: Any) -> None:
        """Tells which model is trained."""
        self.model = model
        self._init_callback()

    def on_training_start(self, locals_: dict[str, Any], globals_: dict[str, Any]) -> None:
        """Training begins."""
        self.locals, self.globals = locals_, globals_
        self.num_timesteps = self.model.num_timesteps
        self._on_training_start()

    def on_rollout_start(self) -> None:
        """A rollout begins."""
        self._on_rollout_start()

    def on_step(self) -> bool:
        """A step was taken; False asks training to stop."""
        self.n_calls += 1
        self.num_timesteps = self.model.num_timesteps
        return self._on_step()

    def on_rollout_end(self) -> None:
        """A rollout has ended, and updates follow."""
        self._on_rollout_end()

    def on_training_end(self) -> None:
        """Training has ended."""
        self._on_training_end()

    def update_locals(self, locals_: dict[str, Any]) -> None:
        """Takes in what a step has brought."""
        self.locals.update(locals_)
        self.update_child_locals(locals_)

    def update_child_locals(self, locals_: dict[str, Any]) -> None:  # noqa: B027
        """Passes it on; for callbacks that call others."""

    def _init_callback(self) -> None:  # noqa: B027
        """For subclasses."""

    def _on_training_start(self) -> None:  # noqa: B027
        """For subclasses."""

    def _on_rollout_start(self) -> None:  # noqa: B027
        """For subclasses."""

    @abstractmethod
    def _on_step(self) -> bool:
        """For subclasses; False asks training to stop."""

    def _on_rollout_end(self) -> None:  # noqa: B027
        """For subclasses."""

    def _on_training_end(self) -> None:  # noqa: B027
        """For subclasses."""


class EventCallback(BaseCallback):
    """Calls another callback when something happens."""

    def __init__(self, callback: BaseCallback | None = None, verbose: int = 0) -> None:
        """Keeps it.

        Args:
            callback: called by `_on_event`.
            verbose: how much to print.
        """
        super().__init__(verbose)
        self.callback = callback
        if callback is not None:
            callback.parent = self

    def init_callback(self, model: Any) -> None:
        """See `BaseCallback`."""
        super().init_callback(model)
        if self.callback is not None:
            self.callback.init_callback(model)

    def _on_training_start(self) -> None:
        if self.callback is not None:
            self.callback.on_training_start(self.locals, self.globals)

    def _on_event(self) -> bool:
        return True if self.callback is None else self.callback.on_step()

    def _on_step(self) -> bool:
        return True

    def update_child_locals(self, locals_: dict[str, Any]) -> None:
        """See `BaseCallback`."""
        if self.callback is not None:
            self.callback.update_locals(locals_)


class CallbackList(BaseCallback):
    """Several callbacks, called one after the other."""

    def __init__(self, callbacks: Sequence[BaseCallback]) -> None:
        """Keeps them."""
        super().__init__()
        self.callbacks = list(callbacks)

    def init_callback(self, model: Any) -> None:
        """See `BaseCallback`."""
        super().init_callback(model)
        for one in self.callbacks:
            one.init_callback(model)

    def _on_training_start(self) -> None:
        for one in self.callbacks:
            one.on_training_start(self.locals, self.globals)

    def _on_rollout_start(self) -> None:
        for one in self.callbacks:
            one.on_rollout_start()

    def _on_step(self) -> bool:
        answers = [one.on_step() for one in self.callbacks]  # All are called, also after one has asked to stop.
        return False not in answers

    def _on_rollout_end(self) -> None:
        for one in self.callbacks:
            one.on_rollout_end()

    def _on_training_end(self) -> None:
        for one in self.callbacks:
            one.on_training_end()

    def update_child_locals(self, locals_: dict[str, Any]) -> None:
        """See `BaseCallback`."""
        for one in self.callbacks:
            one.update_locals(locals_)


class ConvertCallback(BaseCallback):
    """A function of locals and globals as a callback."""

    def __init__(
        self, callback: Callable[[dict[str, Any], dict[str, Any]], bool | None] | None, verbose: int = 0
    ) -> None:
        """Keeps it."""
        super().__init__(verbose)
        self.callback = callback

    def _on_step(self) -> bool:
        return True if self.callback is None else self.callback(self.locals, self.globals) is not False


class CheckpointCallback(BaseCallback):
    """Saves the model every so many steps of the batch."""

    def __init__(
        self,
        save_freq: int,
        save_path: str,
        name_prefix: str = "rl_model",
        save_replay_buffer: bool = False,
        save_vecnormalize: bool = False,
        verbose: int = 0,
    ) -> None:
        """Keeps the settings.

        Args:
            save_freq: steps of the batch between saves.
            save_path: folder.
            name_prefix: of the files.
            save_replay_buffer: save that, too.
            save_vecnormalize: save the statistics of `VecNormalize`, too.
            verbose: 2 prints each save.
        """
        super().__init__(verbose)
        self.save_freq, self.save_path, self.name_prefix = save_freq, save_path, name_prefix
        self.save_replay_buffer, self.save_vecnormalize = save_replay_buffer, save_vecnormalize

    def _init_callback(self) -> None:
        Path(self.save_path).mkdir(parents=True, exist_ok=True)

    def _path(self, kind: str, ending: str) -> Path:
        return Path(self.save_path) / f"{self.name_prefix}_{kind}{self.num_timesteps}_steps.{ending}"

    def _on_step(self) -> bool:
        if self.n_calls % self.save_freq:
            return True
        self.model.save(self._path("", "zip"))
        if self.save_replay_buffer and self.model.has_replay_buffer:
            self.model.save_replay_buffer(self._path("replay_buffer_", "pkl"))
        normalizer = self.model.get_vec_normalize_env()
        if self.save_vecnormalize and normalizer is not None:
            normalizer.save(self._path("vecnormalize_", "pkl"))
        if self.verbose >= 2:
            print(f"Saving model checkpoint to {self._path('', 'zip')}")
        return True


class EveryNTimesteps(EventCallback):
    """Calls another callback every so many steps of all worlds together."""

    def __init__(self, n_steps: int, callback: BaseCallback) -> None:
        """Keeps the settings."""
        super().__init__(callback)
        self.n_steps = n_steps
        self.last_time_trigger = 0

    def _on_step(self) -> bool:
        if self.num_timesteps - self.last_time_trigger < self.n_steps:
            return True
        self.last_time_trigger = self.num_timesteps
        return self._on_event()


class StopTrainingOnMaxEpisodes(BaseCallback):
    """Stops after so many episodes of each world, on average."""

    def __init__(self, max_episodes: int, verbose: int = 0) -> None:
        """Keeps the settings."""
        super().__init__(verbose)
        self.max_episodes = max_episodes
        self.n_episodes = 0

    def _on_step(self) -> bool:
        self.n_episodes += int(sum(self.locals["dones"]))
        goes_on = self.n_episodes < self.max_episodes * self.training_env.num_envs
        if not goes_on and self.verbose >= 1:
            print(f"Stopping training after {self.n_episodes} episodes, {self.num_timesteps} steps")
        return goes_on


class ProgressBarCallback(BaseCallback):
    """A progress bar."""

    def _on_training_start(self) -> None:
        from rich.progress import Progress

        self._bar = Progress()
        total = self.locals["total_timesteps"] - self.model.num_timesteps
        self._task = self._bar.add_task("steps", total=total)
        self._bar.start()

    def _on_step(self) -> bool:
        self._bar.advance(self._task, self.training_env.num_envs)
        return True

    def _on_training_end(self) -> None:
        self._bar.stop()
