"""What all models have in common but saving: keywords, `learn` and `predict`, over our trainer and policies."""

import time
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Self

import numpy as np
from torch import nn

from rein.compat.sb3 import archive
from rein.compat.sb3.callbacks import BaseCallback, CallbackList, ConvertCallback, ProgressBarCallback
from rein.compat.sb3.keywords import Clock, refuse, require_default
from rein.compat.sb3.policy import Acting
from rein.compat.sb3.records import Logger, learn_logger
from rein.compat.sb3.run import Loop, ModelTrainer, on_device, start_trainer
from rein.compat.sb3.settings import Settings, run_settings
from rein.compat.sb3.training_batch import TrainingBatch, as_world_takes
from rein.compat.sb3.vec_env import VecEnv
from rein.compat.sb3.vec_normalize import VecNormalize, unwrap_vec_normalize
from rein.compat.sb3.vec_wrappers import VecTransposeImage, transposed
from rein.compat.sb3.worlds import as_vec_env, set_random_seed
from rein.envs.faults import EnvironmentFaultError
from rein.runtime.seeding import draw_seed

_UNSUPPORTED = {
    "use_sde": False,
    "use_sde_at_warmup": False,
    "sde_sample_freq": -1,
    "rollout_buffer_class": None,
    "rollout_buffer_kwargs": None,
    "optimize_memory_usage": False,
}


class TrainedModel(ABC):
    """A model: a policy with what trains it.

    Attributes:
        num_timesteps: steps of all worlds together since training began.
        ep_info_buffer: the last episodes, as `Monitor` tells them.
    """

    is_on_policy: ClassVar[bool]
    reports_every: ClassVar[int]
    learning_rate: Any

    def __init__(self, keywords: Mapping[str, Any]) -> None:
        """Keeps the keywords, and builds the networks if there is an environment.

        Args:
            keywords: of the constructor of the subclass, all of them.
        """
        owner = type(self).__name__
        given = {key: value for key, value in keywords.items() if key not in ("self", "__class__")}
        env, self.policy_name = given.pop("env"), given.pop("policy")
        require_default(owner, given, _UNSUPPORTED)
        builds = given.pop("_init_setup_model")
        self._keywords = given
        self.verbose: int = 0
        self.seed: int | None = None
        self.tensorboard_log: str | None = None
        self.policy_kwargs: dict[str, Any] | None = None
        self.stats_window_size = 100
        self.device: Any = "auto"
        for key, value in given.items():
            if key not in _UNSUPPORTED:
                setattr(self, key, value)
        self.clock = Clock()
        self.run_seed = draw_seed() if self.seed is None else int(self.seed)
        self.ep_info_buffer: deque[dict[str, Any]] = deque(maxlen=self.stats_window_size)
        self.start_time = 0.0
        self._logger: Logger | None = None
        self._has_own_logger = False
        self._episodes = 0
        self._trainer: ModelTrainer | None = None
        self._batch: TrainingBatch | None = None
        self._acting: Acting | None = None
        self._loop: Loop | None = None
        self._given_observation_space: Any = None
        self.env: VecEnv | None = None
        if env is not None:
            self._take_env(as_vec_env(env, self.verbose))
            if builds:
                self._build()

    # What subclasses say.

    @staticmethod
    @abstractmethod
    def settings_of(model: Any) -> Settings:
        """Our settings that the keywords of a model mean, but those that all have."""

    @property
    @abstractmethod
    def steps_per_rollout(self) -> int:
        """Steps of the batch between updates."""

    @property
    def updates_per_rollout(self) -> int:
        """Updates, or passes over the rollout."""
        raise NotImplementedError

    def _sampled_share(self) -> float:
        """Of the actions of a policy that is not deterministic, those that are drawn."""
        return 1.0

    # Building.

    def _settings(self) -> Settings:
        """Our settings, all of them."""
        return {**run_settings(self), **self.settings_of(self)}

    def _take_env(self, env: VecEnv) -> None:
        self.env = env
        self.n_envs = env.num_envs
        self.observation_space, self.action_space = env.observation_space, env.action_space
        self._given_observation_space = (
            env.venv.observation_space if isinstance(env, VecTransposeImage) else env.observation_space
        )

    def _build(self) -> None:
        """Makes trainer and networks for the environment."""
        assert self.env is not None
        self._batch = TrainingBatch(self.env, self._on_env_step, self.seed)
        folder = TemporaryDirectory(prefix="rein-sb3-")
        with on_device(self.device):
            self._trainer = start_trainer(self._settings, self._batch, folder.name, type(self).__name__)
        self._acting = Acting.of_trainer(self._trainer, self._sampled_share)
        self._closer = weakref.finalize(self, _end, self._trainer, folder)

    def _require_acting(self) -> Acting:
        if self._acting is None:
            raise ValueError("the model has no environment yet, so it is not built: call set_env first")
        return self._acting

    @property
    def algorithm(self) -> nn.Module:
        """Our algorithm, with its networks."""
        return self._require_acting().algorithm

    @property
    def policy(self) -> Acting:
        """What acts: has `predict`, `parameters`, `state_dict` and the rest of a module."""
        return self._require_acting()

    @property
    def num_timesteps(self) -> int:
        """Steps of all worlds together since training began."""
        return self.clock.num_timesteps

    @num_timesteps.setter
    def num_timesteps(self, value: int) -> None:
        self.clock.num_timesteps = int(value)

    @property
    def logger(self) -> Logger:
        """Where values are reported."""
        if self._logger is None:
            self._logger = Logger(None, [])
        return self._logger

    def set_logger(self, logger: Logger) -> None:
        """Uses another logger, whatever `tensorboard_log` and `verbose` say."""
        self._logger, self._has_own_logger = logger, True

    def get_env(self) -> VecEnv | None:
        """The batch of worlds; None if there is none yet."""
        return self.env

    def get_vec_normalize_env(self) -> VecNormalize | None:
        """The `VecNormalize` around the batch; None if there is none."""
        return None if self.env is None else unwrap_vec_normalize(self.env)

    def set_env(self, env: Any, force_reset: bool = True) -> None:
        """Uses another environment with the same spaces.

        Args:
            env: an id, a world or a batch.
            force_reset: False is refused: other worlds cannot go on with episodes of these.
        """
        if not force_reset:
            refuse(type(self).__name__, "force_reset", force_reset)
        batch = as_vec_env(env, self.verbose)
        for name in ("observation_space", "action_space"):
            before = getattr(self, name, None)
            if before is not None and not _fits(before, getattr(batch, name)):
                raise ValueError(f"the {name} of env is {getattr(batch, name)}, and the model was made for {before}")
        state = None if self._acting is None else self._acting.algorithm.state_dict()
        if self._batch is not None and batch.num_envs != self.n_envs:
            raise ValueError(f"env has {batch.num_envs} worlds, and the model trains with {self.n_envs}: give as many")
        self._take_env(batch)
        if self._batch is not None:
            self._batch.exchange(batch)
            return
        self._build()
        if state is not None:
            self.policy.algorithm.load_state_dict(state)

    def set_random_seed(self, seed: int | None = None) -> None:
        """Seeds all random numbers, and the worlds at their next reset."""
        if seed is None:
            return
        set_random_seed(seed)
        if self.env is not None:
            self.env.seed(seed)

    # Training.

    def learn(
        self,
        total_timesteps: int,
        callback: Any = None,
        log_interval: int | None = -1,
        tb_log_name: str | None = None,
        reset_num_timesteps: bool = True,
        progress_bar: bool = False,
    ) -> Self:
        """Trains.

        Args:
            total_timesteps: steps of all worlds together, rounded up to whole rollouts.
            callback: a `BaseCallback`, a list of them, or a function of locals and globals.
            log_interval: rollouts (on-policy) or episodes (off-policy) between reports; None never
                reports, and -1 is what is usual for the model.
            tb_log_name: begin of the name of the folder of events; None is that of the class.
            reset_num_timesteps: False goes on counting, and lets schedules go on.
            progress_bar: show one.
        """
        if self._trainer is None or self._batch is None:
            raise ValueError("the model has no environment to train in: give env= to load, or call set_env")
        if not reset_num_timesteps:
            total_timesteps += self.num_timesteps
        else:
            self.num_timesteps, self._episodes = 0, 0
            self.ep_info_buffer.clear()
        self.clock.total_timesteps = total_timesteps
        if not self._has_own_logger:
            name = tb_log_name or type(self).__name__
            self._logger = learn_logger(self.verbose, self.tensorboard_log, name, not reset_num_timesteps)
        hooks = self._callback(callback, progress_bar)
        self._loop = Loop(
            self.steps_per_rollout, hooks, {"self": self, "total_timesteps": total_timesteps, "env": self.env}
        )
        if reset_num_timesteps or not self._batch.is_untouched:
            self._trainer.begin_anew()
        self._start_time_and_step = time.perf_counter(), self.num_timesteps
        self._log_interval = self.reports_every if log_interval == -1 else log_interval
        self._rollouts = 0
        rollouts = -(-(total_timesteps - self.num_timesteps) // (self.steps_per_rollout * self.n_envs))
        self._loop.begin(self)
        assert self.env is not None
        self.env.waiting = self._batch.venv.can_wait
        try:
            with on_device(self.device):
                stopped_by = self._trainer.run_for(max(0, rollouts), self._after_rollout)
        except EnvironmentFaultError as error:
            raise (error.__cause__ or error) from None
        finally:
            self.env.waiting = False
            loop, self._loop = self._loop, None
        loop.end()
        if stopped_by == "SIGINT":
            raise KeyboardInterrupt
        return self

    def _callback(self, given: Any, progress_bar: bool) -> BaseCallback | None:
        several = list(given) if isinstance(given, list | tuple) else [given]
        found = [one if isinstance(one, BaseCallback) else ConvertCallback(one) for one in several if one is not None]
        if progress_bar:
            found.append(ProgressBarCallback())
        return None if not found else found[0] if len(found) == 1 else CallbackList(found)

    def _on_env_step(self, step: dict[str, Any]) -> None:
        """Called after each step of the batch while training."""
        loop = self._loop
        if loop is None or loop.has_stopped:
            return
        self.num_timesteps += self.n_envs
        for info in step["infos"]:
            if "episode" in info:
                self.ep_info_buffer.append(info["episode"])
        self._episodes += int(step["dones"].sum())
        loop.step(step)
        if loop.has_stopped:
            assert self._trainer is not None
            self._trainer.stop()
        if (
            not self.is_on_policy
            and self._log_interval
            and step["dones"].any()
            and not self._episodes % self._log_interval
        ):
            self.dump_logs()

    def _after_rollout(self) -> None:
        """Called after the updates of each rollout."""
        self._rollouts += 1
        if self.is_on_policy and self._log_interval and not self._rollouts % self._log_interval:
            self.dump_logs(self._rollouts)

    def dump_logs(self, iteration: int = 0) -> None:
        """Reports how training goes."""
        begun, first = self._start_time_and_step
        seconds = max(time.perf_counter() - begun, 1e-9)
        record = self.logger.record
        if self.ep_info_buffer:
            record("rollout/ep_rew_mean", float(np.mean([one["r"] for one in self.ep_info_buffer])))
            record("rollout/ep_len_mean", float(np.mean([one["l"] for one in self.ep_info_buffer])))
        if iteration:
            record("time/iterations", iteration, exclude="tensorboard")
        else:
            record("time/episodes", self._episodes, exclude="tensorboard")
        record("time/fps", int((self.num_timesteps - first) / seconds))
        record("time/time_elapsed", int(seconds), exclude="tensorboard")
        record("time/total_timesteps", self.num_timesteps, exclude="tensorboard")
        for name, value in self._require_acting().rates().items():
            record(f"train/{name}", value)
        self.logger.dump(self.num_timesteps)

    # Acting.

    def predict(
        self, observation: Any, state: Any = None, episode_start: Any = None, deterministic: bool = False
    ) -> tuple[Any, Any]:
        """The action for an observation, or a batch of them, and the recurrent state, which is None.

        Args:
            observation: as the world gives it, or a batch.
            state: not used: there are no recurrent policies here.
            episode_start: likewise.
            deterministic: False draws from the policy.
        """
        observation = transposed(observation, self._given_observation_space)
        actions, state = self._require_acting().predict(observation, state, episode_start, deterministic)
        return as_world_takes(actions, self.action_space), state


def _end(trainer: ModelTrainer, folder: "TemporaryDirectory[str]") -> None:
    trainer.close()
    folder.cleanup()


def _fits(before: Any, now: Any) -> bool:
    """Whether spaces mean the same to a policy; those of a loaded model have lost the precision of floats."""
    return archive.space_to_json(before) == archive.space_to_json(now)
