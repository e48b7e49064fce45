"""`RLAlgorithm`: an algorithm that acts in an environment and learns from what happens."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import Parameter

from rein import nest
from rein.config import configurable
from rein.data_structures import AlgStep, Experience, LossInfo, TimeStep
from rein.distributions import map_params
from rein.envs import Environment
from rein.envs.metrics import EpisodeMetrics, StepMetric
from rein.framework.acting.quick_rollout import QuickActor
from rein.framework.acting.rollout import Rollout
from rein.framework.algorithm import Algorithm
from rein.framework.trainer_config import TrainerConfig
from rein.framework.updating.offline_data import OfflineData
from rein.framework.updating.replay_training import train_from_unroll
from rein.framework.updating.update_summaries import summarize, summarize_distributions
from rein.nest import Nest
from rein.runtime import summary
from rein.runtime.timers import timer
from rein.runtime.watching import current_watcher
from rein.specs import TensorSpec
from rein.transforms import DataTransformer


def adjust_replay_buffer_length(config: TrainerConfig, num_earliest_frames_ignored: int = 0) -> int:
    """Steps that the replay buffer must hold of each environment.

    Training on the whole buffer without clearing it keeps one rollout and the step before it, whose successor is only
    known now; frames that a transformer needs from before come on top.

    Args:
        config: settings of the run.
        num_earliest_frames_ignored: steps at the old end that are only looked back at.
    """
    if not config.whole_replay_buffer_training:
        return config.replay_buffer_length
    longest = math.ceil(config.unroll_length) or config.max_unroll_length
    if config.clear_replay_buffer:
        return max(config.replay_buffer_length, longest)
    return longest + 1 + num_earliest_frames_ignored


@configurable
class RLAlgorithm(Algorithm):
    """Base of algorithms that act.

    `train_iter` is one iteration: a rollout, then updates. On-policy algorithms learn from the rollout by `calc_loss` of
    `rollout_step`'s infos; off-policy ones by `train_step` from a buffer, or from the fresh rollout if the settings say
    that the whole buffer is trained on and then cleared.
    """

    export_obstacle: ClassVar[str] = ""
    """Why a policy that acts by this algorithm cannot be exported, for those that cannot."""

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        train_state_spec: Nest,
        reward_spec: TensorSpec = TensorSpec(()),
        predict_state_spec: Nest | None = None,
        rollout_state_spec: Nest | None = None,
        is_on_policy: bool | None = None,
        reward_weights: Sequence[float] | None = None,
        env: Environment | None = None,
        config: TrainerConfig | None = None,
        optimizer: Any | None = None,
        checkpoint: str | None = None,
        is_eval: bool = False,
        overwrite_policy_output: bool = False,
        debug_summaries: bool = False,
        name: str = "RLAlgorithm",
    ) -> None:
        """Makes the base of an RL algorithm.

        Args:
            observation_spec: specs of the (transformed) observation.
            action_spec: bounded specs of the action.
            train_state_spec: specs of the recurrent state of `train_step`.
            reward_spec: a scalar, or a vector for several rewards.
            predict_state_spec: specs of the recurrent state of `predict_step`; None is `rollout_state_spec`.
            rollout_state_spec: specs of the recurrent state of `rollout_step`; None is `train_state_spec`.
            is_on_policy: whether it trains on the rollout itself.
            reward_weights: weights of the dimensions of a vector reward; None sums them.
            env: batched environment; given to the root algorithm only.
            config: settings of the run; given to the root algorithm only.
            optimizer: default optimizer.
            checkpoint: ``"prefix@path"`` to load the parameters from.
            is_eval: built to act only; parts that only learning needs may be left out.
            overwrite_policy_output: take as action what the environment reports it did.
            debug_summaries: write more summaries.
            name: name in summaries.
        """
        super().__init__(
            train_state_spec=train_state_spec,
            rollout_state_spec=rollout_state_spec,
            predict_state_spec=predict_state_spec,
            is_on_policy=is_on_policy,
            optimizer=optimizer,
            checkpoint=checkpoint,
            config=config,
            debug_summaries=debug_summaries,
            name=name,
        )
        self._observation_spec = observation_spec
        self._action_spec = action_spec
        self._reward_spec = reward_spec
        self._is_eval = is_eval
        self._overwrite_policy_output = overwrite_policy_output
        self._reward_weights: Tensor | None
        self.register_buffer("_reward_weights", None)
        if reward_spec.numel > 1:
            weights = [1.0] * reward_spec.numel if reward_weights is None else list(reward_weights)
            if len(weights) != reward_spec.numel:
                raise ValueError(f"reward_weights has {len(weights)} entries for {reward_spec.numel} rewards")
            self._reward_weights = torch.tensor(weights, dtype=torch.float32)
        elif reward_weights is not None:
            raise ValueError("reward_weights is given, but the reward is a scalar: leave it out")
        self._rollout: Rollout | None = None
        self._env = env
        self._metrics: EpisodeMetrics | None = None
        self._offline: OfflineData | None = None
        if env is not None and config is not None and not is_eval:
            config.check_batches(env.batch_size)
            if config.async_unroll:
                self._check_async_unroll(env, config)
            window = max(config.metric_min_buffer_size, env.batch_size)
            self._metrics = EpisodeMetrics(window=window)

    @property
    def env(self) -> Environment | None:
        """The batched environment of the root algorithm; None for parts, for evaluation and without an environment."""
        return self._env

    @property
    def observation_spec(self) -> Nest:
        """Specs of the observation."""
        return self._observation_spec

    @property
    def action_spec(self) -> Nest:
        """Specs of the action."""
        return self._action_spec

    @property
    def reward_weights(self) -> Tensor | None:
        """Weights of a vector reward, [D]; None for a scalar reward."""
        return self._reward_weights

    def set_reward_weights(self, reward_weights: Tensor) -> None:
        """Changes the weights of a vector reward, [D], from the next step on."""
        if self._reward_weights is None:
            raise ValueError(f"{self.name} has a scalar reward: there are no weights to set")
        self._reward_weights.copy_(reward_weights)

    @property
    def overwrites_policy_output(self) -> bool:
        """Whether what the environment reports as `prev_action` is stored as the action, e.g. of a human at the wheel."""
        return self._overwrite_policy_output

    @property
    def reward_spec(self) -> TensorSpec:
        """Spec of the reward."""
        return self._reward_spec

    def has_multidim_reward(self) -> bool:
        """Whether the reward is a vector."""
        return self._reward_spec.numel > 1

    # Acting.

    @property
    def rollout(self) -> Rollout:
        """Where this algorithm stands in its environment."""
        if self._rollout is None:
            if self._env is None:
                raise ValueError(f"{self.name} has no environment: construct it with env= and config=")
            config = self.require_config()
            self._check_transformer(config)
            self._rollout = self._async_rollout(self._env, config) if config.async_unroll else Rollout(self, self._env)
        return self._rollout

    def _async_rollout(self, env: Environment, config: TrainerConfig) -> Rollout:
        from rein.framework.asynchronous.rollout import AsyncRollout

        self._check_async_unroll(env, config)  # Now it is known whether a composition is on-policy.
        return AsyncRollout(self, env)

    def _check_async_unroll(self, env: Environment, config: TrainerConfig) -> None:
        from rein.framework.asynchronous.rollout import check_async_unroll

        check_async_unroll(self, env, config)

    def close_rollout(self) -> None:
        """Ends the process of an asynchronous unroll; nothing can be collected after that."""
        if self._rollout is not None:
            self._rollout.close()

    def set_data_transformer(self, transformer: DataTransformer) -> None:
        """Makes `transformer` a child of this root algorithm, which acts and learns through it from now on."""
        self.add_module("_data_transformer", transformer)
        self.learning.transformer = transformer
        for module in self.modules():
            if isinstance(module, Algorithm):
                module._transformer = [transformer]

    def initial_transform_state(self, batch_size: int) -> Nest:
        """The state of the data transformer before the first step."""
        transformer = self.data_transformer
        if transformer is None:
            return ()
        return nest.map_structure(lambda spec: spec.zeros((batch_size,)), transformer.state_spec)

    def get_initial_transform_state(self, batch_size: int) -> Nest:
        """The same, under its documented name."""
        return self.initial_transform_state(batch_size)

    def quick_actor(self) -> QuickActor | None:
        """What can pick the actions of a rollout in the place of `rollout_step`; None: nothing can.

        An algorithm that gives one also defines `rollout_infos`.
        """
        return None

    def rollout_infos(self, inputs: TimeStep, action: Nest, num_acted: int) -> Nest:
        """The infos of `rollout_step` at steps where `action` was picked by the quick actor.

        Args:
            inputs: [N, ...], time before worlds.
            action: [N, ...].
            num_acted: so many of the rows were acted on; those after them are only looked at, and no statistic counts them.
        """
        self._missing("rollout_infos")

    def observe_rollout_for_metrics(self, time_steps: TimeStep) -> None:
        """What `observe_for_metrics` does, with the steps of a rollout, [T, B, ...]."""
        if self._metrics is not None:
            self._metrics.update_all(time_steps)
            watcher = current_watcher()
            if watcher is not None:
                watcher.saw_steps(time_steps)

    def unroll(self, unroll_length: int) -> Experience | None:
        """Takes `unroll_length` steps of every environment.

        Returns:
            For replay, the last step [B, ...] or None. Otherwise [unroll_length + 1, B, ...], the last step not acted on.
        """
        config = self.require_config()
        self._prepare_replay(config)
        with timer("rollout"):
            if self.on_policy:
                return self.rollout.collect(unroll_length, with_grad=True)
            if config.trains_on_fresh_rollouts:
                return self.rollout.collect(unroll_length, with_grad=config.unroll_with_grad)
            return self.rollout.collect_for_replay(unroll_length, with_grad=config.unroll_with_grad)

    def observe_for_metrics(self, time_step: TimeStep) -> None:
        """Feeds a raw time step, [B, ...], to the metrics."""
        if self._metrics is not None:
            self._metrics.update(time_step)
            watcher = current_watcher()
            if watcher is not None:
                watcher.saw_steps(nest.map_structure(lambda tensor: tensor[None], time_step))

    @property
    def metrics(self) -> EpisodeMetrics:
        """Episode returns, lengths and counts of the rollout."""
        if self._metrics is None:
            raise ValueError(f"{self.name} has no metrics: only the root algorithm with env= and config= has")
        return self._metrics

    def get_metrics(self) -> list[StepMetric]:
        """All metrics of the rollout: counts, and averages over recent episodes; each has a `name` and a `result()`."""
        return self.metrics.step_metrics()

    def get_step_metrics(self) -> list[StepMetric]:
        """The metrics to draw summaries against: environment steps and episodes."""
        return [metric for metric in self.get_metrics() if metric.name in ("EnvironmentSteps", "NumberOfEpisodes")]

    # Learning.

    def train_iter(self) -> int:
        """One iteration: a rollout, then updates; returns the number of samples trained on."""
        config = self.require_config()
        experience = self._collect(config) if self._acts() else None
        trained = self._learn(config, experience)
        inputs, info = self._collected(config, experience)
        self.after_train_iter(inputs, info)
        if not config.update_counter_every_mini_batch:
            summary.increment_global_counter()
        if config.empty_cache and torch.cuda.is_available():
            torch.cuda.empty_cache()
        return trained

    def _acts(self) -> bool:
        """Whether this iteration begins with a rollout."""
        if self._offline is None:
            return True
        return self._env is not None and self._offline.online_training_has_started

    def _collect(self, config: TrainerConfig) -> Experience | None:
        """The rollout of an iteration, if its budget of environment steps allows one."""
        length = self.rollout.next_length(config.unroll_length)
        if config.num_env_steps and self.metrics.environment_steps >= config.num_env_steps:
            length = 0
        experience = self.unroll(length) if length > 0 else None
        watcher = current_watcher()
        if watcher is not None:
            watcher.collected()
        if experience is not None and summary.should_record_summaries():
            self.summarize_rollout(experience)
            self.summarize_metrics()
        return experience

    def _learn(self, config: TrainerConfig, experience: Experience | None) -> int:
        if self.on_policy:
            if experience is None:
                return 0
            with timer("learn"):
                return train_from_unroll(self, experience, experience.rollout_info, num_bootstrap_steps=1)
        if config.trains_on_fresh_rollouts:
            return 0 if experience is None else self.learning.train_from_rollout(experience, num_bootstrap_steps=1)
        if self._offline is not None:
            return self._offline.train(self.learning, is_alone=self._env is None)
        return self.train_from_replay_buffer(update_global_counter=True)

    def _collected(self, config: TrainerConfig, experience: Experience | None) -> tuple[Nest | None, Nest | None]:
        """Inputs and infos of the rollout for `after_train_iter`, [T, B, ...]; None where the rollout went to replay."""
        if experience is None or not (self.on_policy or config.trains_on_fresh_rollouts):
            return None, None
        # The last step was not acted on.
        return map_params(lambda tensor: tensor[:-1].detach(), (experience.time_step, experience.rollout_info))

    def _check_transformer(self, config: TrainerConfig) -> None:
        """Tells the data transformer where data comes from, and refuses one that needs what there is not."""
        transformer = self.data_transformer
        if transformer is None:
            return
        from_rollouts = bool(self.on_policy) or config.trains_on_fresh_rollouts
        if transformer.needs_replay_buffer and from_rollouts:
            raise ValueError(
                f"{self.name} learns from its rollouts, but a data transformer works on a replay buffer: leave that "
                "transformer out, or set whole_replay_buffer_training=False with an off-policy algorithm"
            )
        transformer.set_data_source("rollout" if from_rollouts else "replay")

    def _prepare_replay(self, config: TrainerConfig) -> None:
        if self.on_policy or config.trains_on_fresh_rollouts or self.learning.has_plan:
            return
        length = adjust_replay_buffer_length(config, self.learning.num_earliest_frames_ignored)
        self.set_replay_buffer(self.rollout.env.batch_size, length, config.priority_replay)

    @property
    def has_offline(self) -> bool:
        """Whether there is offline data to train on."""
        return self._offline is not None

    @property
    def offline_data(self) -> OfflineData | None:
        """The offline data of hybrid training."""
        return self._offline

    def load_offline_replay_buffer(self, untransformed_observation_spec: Nest) -> None:
        """Loads the buffers of `TrainerConfig.offline_buffer_dir` for hybrid training.

        Args:
            untransformed_observation_spec: specs of the observation as the environment gives it.
        """
        self.learn_from(OfflineData.load(self, untransformed_observation_spec))

    def learn_from(self, data: OfflineData) -> None:
        """Lets every update learn from offline data: besides the rollouts or, without an environment, alone."""
        if self.on_policy:
            raise ValueError(
                f"{self.name} is on-policy: it cannot learn from offline data, take an off-policy algorithm"
            )
        self._offline = data

    def require_config(self) -> TrainerConfig:
        """Settings of the run; `ValueError` if there are none."""
        if self._config is None:
            raise ValueError(f"{self.name} has no settings: construct it with config=TrainerConfig(...)")
        return self._config

    # What a trainer needs; see `Trainable`.

    @property
    def env_steps(self) -> int:
        """Environment steps taken so far."""
        return 0 if self._metrics is None else self._metrics.environment_steps

    def progress_metrics(self) -> dict[str, float]:
        """Averages over recent episodes, by name."""
        return {} if self._metrics is None else self._metrics.averages()

    def training_state(self) -> dict[str, Any]:
        """What continuing exactly needs besides `state_dict`: environments, metrics and stored data."""
        state: dict[str, Any] = {}
        if self._env is not None:
            state |= {"metrics": self.metrics.state_dict(), "rollout": self.rollout.state_dict()}
        if self._offline is not None:
            state["offline"] = self._offline.state_dict()
        buffers = {name: part.learning.state_dict() for name, part in self._learners()}
        if buffers.get("") is not None:
            state["replay_buffer"] = buffers[""]
        parts = {name: buffer for name, buffer in buffers.items() if name and buffer is not None}
        if parts:
            state["part_buffers"] = parts
        since = {name: part.learning.compile_when.since for name, part in self._learners()}
        compiled = {name or "root": iteration for name, iteration in since.items() if iteration is not None}
        return {**state, "compiled": compiled} if compiled else state

    def load_training_state(self, state: Mapping[str, Any]) -> None:
        """Restores what `training_state` gave, before `state_dict` and the random numbers, which this may change."""
        if self._env is not None:
            self.rollout.load_state_dict(state["rollout"])
            self.metrics.load_state_dict(state["metrics"])
        if "replay_buffer" in state:
            self.restore_replay_buffer(state["replay_buffer"])
        if self._offline is not None:
            self._offline.load_state_dict(state["offline"])
        for name, buffer in state.get("part_buffers", {}).items():
            part = self.get_submodule(name)
            assert isinstance(part, Algorithm)
            part.learning.load_state_dict(buffer)
        for name, part in self._learners():
            since = state.get("compiled", {}).get(name or "root")
            part.learning.compile_when.at_once = since is not None
            part.learning.compile_when.since = since

    def _learners(self) -> list[tuple[str, Algorithm]]:
        """This algorithm and all below it that learn from stored data, by name."""
        named = self.named_modules()
        return [(name, one) for name, one in named if isinstance(one, Algorithm) and one._learning is not None]

    def restore_replay_buffer(self, state: dict[str, Any]) -> None:
        """Makes the replay buffer, as a first rollout step would, and fills it with a saved state.

        The step that shows what is stored changes random numbers and perhaps buffers of the algorithm: restore those
        afterwards.
        """
        self._prepare_replay(self.require_config())
        self.learning.make_buffer(self.example_for_replay()).load_state_dict(state)

    def example_for_replay(self) -> Experience:
        """A step [B, ...] like those that are stored."""
        return self.rollout.peek()

    # Summaries.

    def summarize_rollout(
        self, experience: Experience, custom_summary: Callable[[Experience], None] | None = None
    ) -> None:
        """Writes summaries of a rollout.

        Args:
            experience: what was collected.
            custom_summary: called with `experience`, for summaries of one's own.
        """
        if self._debug_summaries:
            for path, reward in nest.flatten_with_paths(experience.reward):
                summary.histogram(f"{self._name}/rollout_reward/{path}".rstrip("/"), reward)
        if custom_summary is not None:
            custom_summary(experience)

    def summarize_train(
        self,
        experience: Experience,
        train_info: Nest,
        loss_info: LossInfo,
        params: list[tuple[str, Parameter]] | None,
    ) -> None:
        """Writes summaries of an update: losses and, with the settings, gradients and action distributions."""
        summarize(self._name, loss_info, params, self._config)
        config = self._config
        if config is not None and config.summarize_action_distributions:
            for part in nest.find_field(train_info, "action_distribution"):
                summarize_distributions(f"{self._name}/action_distribution", part)

    def summarize_metrics(self) -> None:
        """Writes the averages of recent episodes."""
        if self._metrics is not None:
            for name, value in self._metrics.result().items():
                summary.scalar(f"Metrics/{name}", value)

    def predict_step(self, inputs: TimeStep, state: Nest) -> AlgStep:
        """Acts for evaluation; algorithms override this."""
        self._missing("predict_step")
