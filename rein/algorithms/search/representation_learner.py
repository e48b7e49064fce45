"""A model as a representation for other algorithms, trained as MuZero does beside them.

In an `Agent` the representation is the observation of the RL algorithm. It is trained here alone, from a replay buffer and
by a schedule of its own: no gradient of the agent's loss reaches it, so that each parameter has one optimizer.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from rein.algorithms.search.representation_impl import MuzeroRepresentationImpl
from rein.config import configurable
from rein.data_structures import AlgStep, BatchInfo, Experience, LossInfo, TimeStep
from rein.framework import OffPolicyAlgorithm, TrainerConfig
from rein.nest import Nest
from rein.runtime.timers import timer
from rein.specs import BoundedTensorSpec, TensorSpec
from rein.statistics import are_statistics_frozen
from rein.transforms import IdentityDataTransformer


class MuzeroRepresentationTrainingOptions(NamedTuple):
    """How a representation is trained beside an RL algorithm."""

    interval: int = 1
    """Iterations from one training to the next."""
    mini_batch_length: int = 1
    """Steps per sequence."""
    mini_batch_size: int = 256
    """Sequences per update."""
    num_updates_per_train_iter: int = 10
    """Gradient updates per training."""
    replay_buffer_length: int = 100000
    """Steps of each environment that are kept."""
    initial_collect_steps: int = 2000
    """Steps of all environments together before the first training."""
    priority_replay: bool = True
    """Sample by priority."""
    priority_replay_alpha: float = 1.2
    """Power of priorities."""
    priority_replay_beta: float = 0.0
    """How far importance weights make up for sampling by priority."""


@configurable
class MuzeroRepresentationLearner(OffPolicyAlgorithm):
    """Gives the representation of a model, and trains the model after each iteration."""

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: BoundedTensorSpec,
        config: TrainerConfig,
        training_options: MuzeroRepresentationTrainingOptions | None = None,
        reward_spec: TensorSpec = TensorSpec(()),
        impl_cls: Callable[..., MuzeroRepresentationImpl] = MuzeroRepresentationImpl,
        debug_summaries: bool = False,
        name: str = "MuZeroRepresentationLearner",
    ) -> None:
        """Makes the learner.

        Args:
            observation_spec: specs of the (transformed) observation.
            action_spec: bounded spec of the action.
            config: settings of the run.
            training_options: how the model is trained; None: not at all.
            reward_spec: must be a scalar.
            impl_cls: called as `cls(observation_spec=, action_spec=, reward_spec=, config=, debug_summaries=)`; needs an
                optimizer if it is to be trained.
            debug_summaries: write more summaries.
            name: name in summaries.
        """
        own_config = None if training_options is None else _own_settings(training_options, config)
        impl = impl_cls(
            observation_spec=observation_spec,
            action_spec=action_spec,
            reward_spec=reward_spec,
            config=own_config,
            debug_summaries=debug_summaries,
        )
        super().__init__(
            observation_spec=observation_spec,
            action_spec=action_spec,
            reward_spec=reward_spec,
            train_state_spec=(),
            debug_summaries=debug_summaries,
            name=name,
        )
        if training_options is not None and impl.default_optimizer is None:
            raise ValueError(f"{name}: the model is to be trained: give an optimizer to impl_cls")
        if impl.reanalyze_ratio not in (0.0, 1.0):
            raise ValueError(f"{name}: reanalyze_ratio is {impl.reanalyze_ratio}: here it must be 0 or 1")
        impl._bind_optimizers()
        self._impl = impl
        self._options = training_options
        self._iterations = 0

    def _trainable_attributes_to_ignore(self) -> list[str]:
        return ["_impl"]

    @property
    def output_spec(self) -> TensorSpec:
        """Spec of the representation."""
        return self._impl.output_spec

    @property
    def model(self) -> Any:
        """The model."""
        return self._impl.model

    # The representation.

    def predict_step(self, time_step: TimeStep, state: Nest) -> AlgStep:
        """Representations of observations [B, ...]."""
        step = self._impl.predict_step(time_step, state)
        return AlgStep(output=step.output.detach(), state=state)

    def rollout_step(self, time_step: TimeStep, state: Nest) -> AlgStep:
        """Representations of observations [B, ...]; the steps are stored."""
        step = self._impl.rollout_step(time_step, ())
        # A step that is only looked ahead to will come again.
        if self._options is not None and not are_statistics_frozen():
            self._store(time_step, step)
        return AlgStep(output=step.output.detach(), state=state)

    def _store(self, time_step: TimeStep, step: AlgStep) -> None:
        transformer = self.data_transformer
        if isinstance(time_step.untransformed, TimeStep):
            time_step = time_step.untransformed
        elif transformer is not None and not isinstance(transformer, IdentityDataTransformer):
            raise ValueError(
                f"{self.name} stores time steps as they were before data transformers: put UntransformedTimeStep first among "
                "TrainerConfig.data_transformer_ctor"
            )
        assert self._options is not None
        learning = self._impl.learning
        if not learning.has_plan:
            learning.transformer = transformer
            number = time_step.step_type.shape[0]
            learning.plan_buffer(number, self._options.replay_buffer_length, self._options.priority_replay)
        self._impl.observe_for_replay(Experience(time_step=time_step, rollout_info=step.info))

    def train_step(self, exp: TimeStep, state: Nest, rollout_info: Nest) -> AlgStep:
        """Representations of stored observations [B, ...], without gradient."""
        return AlgStep(output=self._impl.predict_step(exp, ()).output.detach(), state=state)

    def preprocess_experience(
        self, root_inputs: TimeStep, rollout_info: Nest, batch_info: BatchInfo
    ) -> tuple[TimeStep, Nest]:
        """Changes nothing: what the agent samples is not what the model is trained on."""
        return root_inputs, rollout_info

    def calc_loss(self, info: Nest) -> LossInfo:
        """Nothing: the model has no loss of the agent."""
        return LossInfo()

    def after_update(self, root_inputs: Nest, info: Nest) -> None:
        """Nothing: see `after_train_iter`."""

    # Training.

    def after_train_iter(self, experience: Nest | None, info: Nest | None) -> None:
        """Trains the model, every `interval` iterations."""
        self._iterations += 1
        if self._options is None or self._iterations % self._options.interval:
            return
        with timer("representation"):
            self._impl.train_from_replay_buffer(update_global_counter=False)

    def get_extra_state(self) -> dict[str, Any]:
        """The number of iterations."""
        return {"iterations": self._iterations}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Restores what `get_extra_state` returned."""
        self._iterations = state["iterations"]


def _own_settings(options: MuzeroRepresentationTrainingOptions, config: TrainerConfig) -> TrainerConfig:
    """The settings of training the model."""
    return TrainerConfig(
        root_dir=config.root_dir,
        unroll_length=config.unroll_length,
        mini_batch_length=options.mini_batch_length,
        mini_batch_size=options.mini_batch_size,
        num_updates_per_train_iter=options.num_updates_per_train_iter,
        replay_buffer_length=options.replay_buffer_length,
        initial_collect_steps=options.initial_collect_steps,
        priority_replay=options.priority_replay,
        priority_replay_alpha=options.priority_replay_alpha,
        priority_replay_beta=options.priority_replay_beta,
        whole_replay_buffer_training=False,
        clear_replay_buffer=False,
        use_rollout_state=config.use_rollout_state,
    )
