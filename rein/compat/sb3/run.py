"""The loop of a model: our trainer, which saves nothing by itself, and callbacks at every step."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from rein.compat.sb3.callbacks import BaseCallback
from rein.compat.sb3.training_batch import TrainingBatch
from rein.config import Configs, config, fresh_configs, install_name_resolver, use_configs
from rein.envs.instances import TheBatch
from rein.framework import TrainerConfig
from rein.runtime import get_default_device, set_default_device
from rein.training.callbacks import Callback, Training
from rein.training.run_directory import RunDirectory
from rein.training.trainer import Trainer

Settings = dict[str, Any]


class ModelTrainer(Trainer):
    """A trainer of a model: what it learns is saved when the script says so."""

    configs: Configs

    def save(self) -> None:
        """Saves nothing."""

    def _save_config(self) -> None:
        """Saves nothing."""

    def begin_anew(self) -> None:
        """Ends the episodes under way, as truncated."""
        assert self.env is not None
        self.env.cut()  # type: ignore[attr-defined]

    def stop(self) -> None:
        """Ends training after this iteration."""
        self.callbacks.training.stop("a callback has asked for it")

    def run_for(self, rollouts: int, after_rollout: Callable[[], None]) -> str | None:
        """Trains for so many rollouts; gives the name of what stopped it.

        Args:
            rollouts: each with its updates.
            after_rollout: called after each.
        """
        if not rollouts:
            return None
        after = _AfterRollout(after_rollout)
        self.callbacks.add([after])
        try:
            with use_configs(self.configs):
                self.extend_updates((self.run.iterations + rollouts) * self.config.num_updates_per_train_iter)
                return self.train().stopped_by
        finally:
            self.callbacks.remove([after])

    def restore_replay(self, state: Any) -> None:
        """Takes over stored steps."""
        with use_configs(self.configs), self.run:
            self.algorithm.restore_replay_buffer(state)


class _AfterRollout(Callback):
    def __init__(self, after_rollout: Callable[[], None]) -> None:
        self._after_rollout = after_rollout

    def on_iteration(self, training: Training) -> None:
        self._after_rollout()


def start_trainer(settings: Callable[[], Settings], batch: TrainingBatch, folder: str, name: str) -> ModelTrainer:
    """A trainer with the settings of a model.

    Args:
        settings: gives them by name.
        batch: of worlds.
        folder: for what a run leaves.
        name: of the model.
    """
    with fresh_configs() as configs:
        install_name_resolver()
        config(settings())
        config(
            "create_environment",
            env_name=TheBatch(batch),
            backend="vector",
            num_parallel_environments=batch.num_envs,
        )
        directory = RunDirectory.create(folder)
        trainer = ModelTrainer(TrainerConfig(root_dir=folder), directory, tensorboard=False)
        trainer.configs = configs
        directory.start(name=name, seed=trainer.run.seed)
    return trainer


@contextmanager
def on_device(device: Any) -> Iterator[None]:
    """A block whose runs use a device; "auto" is a GPU if there is one."""
    if str(device) == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    before = get_default_device()
    set_default_device(device)
    try:
        yield
    finally:
        set_default_device(before)


class Loop:
    """The callbacks of one call of `learn`, and where it stands in its rollout."""

    def __init__(self, rollout_length: int, callback: BaseCallback | None, values: dict[str, Any]) -> None:
        """Keeps both.

        Args:
            rollout_length: steps of the batch.
            callback: called at every step.
            values: `locals` of all steps.
        """
        self._length, self._callback, self._values = rollout_length, callback, values
        self._done = 0
        self.has_stopped = False

    def begin(self, model: Any) -> None:
        """Training begins."""
        if self._callback is not None:
            self._callback.init_callback(model)
            self._callback.on_training_start({**self._values, "callback": self._callback}, {})

    def step(self, values: dict[str, Any]) -> None:
        """A step was taken.

        Args:
            values: `locals` of this step.
        """
        callback = self._callback
        if callback is None:
            return
        if not self._done:
            callback.on_rollout_start()
        self._done += 1
        callback.update_locals({**values, "n_steps": self._done, "num_collected_steps": self._done})
        if callback.on_step() is False:
            self.has_stopped = True
            return
        if self._done == self._length:
            self._done = 0
            callback.on_rollout_end()

    def end(self) -> None:
        """Training has ended."""
        if self._callback is not None:
            self._callback.on_training_end()
