"""`Algorithm`: a facade over the small modules of this package.

Optimizers are bound in `optimizer_binding`, state is saved by `module_state`, updates are computed and applied in
`updating.gradients`, and the way from collected data to updates is in `updating.replay_training`.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import Parameter

from rein import nest
from rein.config import configurable
from rein.data_structures import AlgStep, BatchInfo, Experience, LossInfo, TimeStep
from rein.framework import module_state, optimizer_binding
from rein.framework.interface import AlgorithmInterface
from rein.framework.module_state import IncompatibleKeys
from rein.framework.optimizer_binding import OptimizerBinding
from rein.framework.steps import steps_at_once, steps_in_order
from rein.framework.trainer_config import TrainerConfig
from rein.framework.updating.data_parallel import GradientMean, activate
from rein.framework.updating.gradient_noise import summarize_gradient_noise
from rein.framework.updating.gradients import (
    Batch,
    Gradients,
    NamedParameters,
    average,
    differentiate,
    importance_weights,
    step_optimizers,
    tell_update,
)
from rein.framework.updating.replay_training import ReplayTraining, train_from_unroll
from rein.framework.updating.settings import UpdateSettings
from rein.framework.updating.update_summaries import summarize
from rein.nest import Nest
from rein.networks.state import zero_state
from rein.replay import ReplayBuffer
from rein.runtime import summary
from rein.transforms import DataTransformer, IdentityDataTransformer


class OfflineInfo(NamedTuple):
    """What all offline data has of a rollout info."""

    action: Nest = ()


@configurable
class Algorithm(AlgorithmInterface):
    """Base of all algorithms.

    Every parameter below an algorithm is optimized by the innermost optimizer that claims it: one added with
    `add_optimizer`, or the default one of the algorithm it belongs to or of the nearest ancestor that has one.
    """

    def __init__(
        self,
        train_state_spec: Nest = (),
        rollout_state_spec: Nest | None = None,
        predict_state_spec: Nest | None = None,
        is_on_policy: bool | None = None,
        optimizer: Any | None = None,
        checkpoint: str | None = None,
        config: TrainerConfig | None = None,
        debug_summaries: bool = False,
        name: str = "Algorithm",
    ) -> None:
        """Makes the base of an algorithm.

        Args:
            train_state_spec: specs of the recurrent state of `train_step`.
            rollout_state_spec: specs of the recurrent state of `rollout_step`; None is `train_state_spec`.
            predict_state_spec: specs of the recurrent state of `predict_step`; None is `rollout_state_spec`.
            is_on_policy: whether it trains on the rollout itself; None leaves it to the parent.
            optimizer: default optimizer, without parameters.
            checkpoint: ``"prefix@path"`` to load the parameters from.
            config: settings of the run, for an algorithm that trains by itself.
            debug_summaries: write more summaries.
            name: name in summaries.
        """
        super().__init__()
        self._train_state_spec = train_state_spec
        self._rollout_state_spec = train_state_spec if rollout_state_spec is None else rollout_state_spec
        self._predict_state_spec = self._rollout_state_spec if predict_state_spec is None else predict_state_spec
        self._is_on_policy: bool | None = None
        self.optimizer_binding = OptimizerBinding(optimizer)
        self._checkpoint = checkpoint
        self._pre_loaded = False
        self._config = config
        self._debug_summaries = debug_summaries
        self._name = name
        self._path = ""
        self._force_params_visible_to_parent = False
        self._learning: ReplayTraining | None = None
        self._transformer: list[DataTransformer] = []
        self._gradient_mean: GradientMean | None = None
        """Averages gradients over processes before every step; None: there are no others."""
        if is_on_policy is not None:
            self.set_on_policy(is_on_policy)

    # What it is.

    @property
    def name(self) -> str:
        """Name in summaries."""
        return self._name

    @property
    def path(self) -> str:
        """Dotted path from the root algorithm to this one, into `rollout_info` and `state`; "" for the root."""
        return self._path

    def set_path(self, path: str) -> None:
        """Sets `path`; an algorithm with sub-algorithms overrides this to tell them theirs."""
        self._path = path

    @property
    def on_policy(self) -> bool | None:
        """Whether it trains on the rollout itself; None if not decided."""
        return self._is_on_policy

    def set_on_policy(self, is_on_policy: bool) -> None:
        """Decides whether this algorithm trains on the rollout itself."""
        fixed = self.on_policy
        if fixed is not None and fixed != is_on_policy:
            kind = "on-policy" if fixed else "off-policy"
            raise ValueError(f"{self.name} is {kind} and cannot be used in a composition that is not")
        self._is_on_policy = is_on_policy

    @property
    def train_state_spec(self) -> Nest:
        """Specs of the recurrent state of `train_step`."""
        return self._train_state_spec

    @property
    def rollout_state_spec(self) -> Nest:
        """Specs of the recurrent state of `rollout_step`."""
        return self._rollout_state_spec

    @property
    def predict_state_spec(self) -> Nest:
        """Specs of the recurrent state of `predict_step`."""
        return self._predict_state_spec

    def get_initial_train_state(self, batch_size: int) -> Nest:
        """A state of zeros for `train_step`, [batch_size, ...]."""
        return zero_state(self.train_state_spec, batch_size)

    def get_initial_rollout_state(self, batch_size: int) -> Nest:
        """A state of zeros for `rollout_step`, [batch_size, ...]."""
        return zero_state(self.rollout_state_spec, batch_size)

    def get_initial_predict_state(self, batch_size: int) -> Nest:
        """A state of zeros for `predict_step`, [batch_size, ...]."""
        return zero_state(self.predict_state_spec, batch_size)

    def convert_train_state_to_predict_state(self, state: Nest) -> Nest:
        """The part of a state of `train_step` that `predict_step` needs."""
        nest.assert_same_structure(self._train_state_spec, self._predict_state_spec)
        return state

    @property
    def rollout_info_spec(self) -> Nest:
        """Specs of `AlgStep.info` of `rollout_step`, distributions included; known after the first rollout step."""
        return self.learning.rollout_info_spec

    @property
    def train_info_spec(self) -> Nest:
        """Specs of `AlgStep.info` of `train_step`; known after the first training step."""
        return self.learning.train_info_spec

    @property
    def experience_spec(self) -> Nest:
        """Specs of what the replay buffer stores; known after the first rollout step."""
        return self.learning.experience_spec

    @property
    def processed_experience_spec(self) -> Nest:
        """Specs of what `preprocess_experience` returns; known after the first update."""
        return self.learning.processed_experience_spec

    @property
    def config(self) -> TrainerConfig | None:
        """Settings of the run, if this algorithm was given them."""
        return self._config

    @property
    def learning(self) -> ReplayTraining:
        """How this algorithm learns from stored data: buffer, settings and specs."""
        if self._learning is None:
            self._learning = ReplayTraining(self, UpdateSettings.of(self._config))
        return self._learning

    def set_update_settings(self, settings: UpdateSettings) -> None:
        """Lets this algorithm learn from stored data of its own, other than the settings of the run say."""
        self._learning = ReplayTraining(self, settings)

    @property
    def data_transformer(self) -> DataTransformer | None:
        """The data transformer of the run: a child of the root algorithm, known to all below it."""
        return self._transformer[0] if self._transformer else None

    @property
    def has_offline(self) -> bool:
        """Whether there is offline data to train on."""
        return False

    @property
    def has_own_offline_step(self) -> bool:
        """Whether `train_step_offline` is anything but `train_step`."""
        return type(self).train_step_offline is not AlgorithmInterface.train_step_offline

    @property
    def has_own_after_update(self) -> bool:
        """Whether `after_update` does anything."""
        return type(self).after_update is not AlgorithmInterface.after_update

    @property
    def use_rollout_state(self) -> bool:
        """Whether recurrent states for training are taken from the rollout."""
        return self._config is not None and self._config.use_rollout_state

    def need_full_rollout_state(self) -> bool:
        """Whether `rollout_step` must return all of the state that `train_step` needs."""
        return bool(self._train_state_spec != () and self.use_rollout_state)

    def forward(self, *input: Any) -> Any:
        """Not used: call `predict_step`, `rollout_step` or `train_step`."""
        raise RuntimeError(f"call predict_step, rollout_step or train_step of {self.name} instead of calling it")

    # Parameters.

    @property
    def default_optimizer(self) -> Any | None:
        """The default optimizer of this algorithm."""
        return self.optimizer_binding.default

    def add_optimizer(self, optimizer: Any, modules_and_params: Iterable[nn.Module | Parameter]) -> None:
        """Gives some of the attributes of this algorithm an optimizer of their own.

        Args:
            optimizer: an optimizer without parameters.
            modules_and_params: modules and parameters that are attributes of this algorithm.
        """
        self.optimizer_binding.add(optimizer, modules_and_params)

    def optimizers(self, recurse: bool = True, include_ignored_attributes: bool = False) -> list[Any]:
        """The optimizers of this algorithm, with their parameters.

        Args:
            recurse: those of sub-algorithms too.
            include_ignored_attributes: those of attributes that this algorithm does not train too.
        """
        self._bind_optimizers()
        return optimizer_binding.optimizers(self, recurse, include_ignored_attributes)

    def get_optimizer_info(self) -> str:
        """JSON text that names the parameters of each optimizer, those without one under "None"."""
        self._bind_optimizers()
        return optimizer_binding.optimizer_info(self)

    def get_unoptimized_parameter_info(self) -> str:
        """Names of all trainable parameters that no optimizer handles, one per line."""
        self._bind_optimizers()
        return optimizer_binding.unoptimized_parameter_info(self)

    def get_param_name(self, param: Parameter) -> str | None:
        """The dotted name of a parameter, or None if this algorithm does not have it."""
        return optimizer_binding.parameter_name(self, param)

    @property
    def force_params_visible_to_parent(self) -> bool:
        """Whether the parent's optimizer handles parameters that this algorithm's optimizers handle already."""
        return self._force_params_visible_to_parent

    @force_params_visible_to_parent.setter
    def force_params_visible_to_parent(self, flag: bool) -> None:
        self._force_params_visible_to_parent = flag

    def _trainable_attributes_to_ignore(self) -> list[str]:
        """Attributes that no optimizer of this algorithm or its parents trains, such as target networks."""
        return []

    def _bind_optimizers(self) -> None:
        if not self.optimizer_binding.is_bound:
            optimizer_binding.bind(self)

    def compute_paras_statistics(self) -> dict[str, NDArray]:
        """L1 norm, L2 norm, mean and standard deviation of each parameter, [4], by name, to compare replicas."""
        statistics = {}
        for name, param in self.named_parameters():
            value = param.detach().double()
            numbers = [value.abs().sum(), value.norm(), value.mean(), value.std(unbiased=False)]
            statistics[name] = np.array([number.item() for number in numbers])
        return statistics

    def activate_ddp(self, rank: int) -> None:
        """Averages the gradients of every update over the processes of `torch.distributed`.

        Parameters and buffers become those of rank 0. `rein.distributed` does all of this for a run: `--backend ddp`.

        Args:
            rank: of this process in the group, which must have been made by `torch.distributed.init_process_group`.
        """
        activate(self, rank)

    # State.

    def state_dict(  # type: ignore[override]
        self,
        destination: "OrderedDict[str, Any] | None" = None,
        prefix: str = "",
        visited: set[int] | None = None,
    ) -> "OrderedDict[str, Any]":
        """Parameters, buffers and optimizer states of the tree below, each once.

        Args:
            destination: filled and returned, if given.
            prefix: put in front of every key.
            visited: ids of objects that are saved already.
        """
        self._bind_optimizers()
        return module_state.collect(
            self, OrderedDict() if destination is None else destination, prefix, set() if visited is None else visited
        )

    def load_state_dict(  # type: ignore[override]
        self, state_dict: Mapping[str, Any], strict: bool = True, skip_preloded: bool = True
    ) -> IncompatibleKeys:
        """Restores what `state_dict` returned.

        Args:
            state_dict: from an algorithm that was built alike.
            strict: raise if keys are missing or unexpected.
            skip_preloded: leave sub-algorithms alone that loaded a checkpoint of their own.
        """
        self._bind_optimizers()
        return module_state.restore(self, dict(state_dict), strict, skip_preloded)

    @property
    def pre_loaded(self) -> bool:
        """Whether this algorithm loaded the checkpoint that it was constructed with."""
        return self._pre_loaded

    def _after_construction(self) -> None:
        """Loads the checkpoint named at the construction, now that everything is there to load it into."""
        if self._checkpoint is not None and module_state.preloads():
            self._preload(self._checkpoint)

    def _preload(self, checkpoint: str) -> None:
        from rein.runtime.checkpoint import load_partial

        state = module_state.without_optimizers(load_partial(checkpoint))
        # Optimizers are not bound by this: parents may still want the parameters.
        module_state.restore(self, dict(state), strict=False)
        self._pre_loaded = True

    # Collecting.

    @property
    def transforms_data(self) -> bool:
        """Whether the data transformer of the run changes anything."""
        return self.data_transformer is not None and not isinstance(self.data_transformer, IdentityDataTransformer)

    def transform_timestep(self, time_step: TimeStep, state: Nest) -> tuple[TimeStep, Nest]:
        """Applies the data transformer of the run to a time step from the environment.

        Args:
            time_step: [B, ...].
            state: state of the transformer.
        """
        transformer = self.data_transformer
        return (time_step, state) if transformer is None else transformer.transform_timestep(time_step, state)

    def transform_experience(self, experience: Experience) -> Experience:
        """Applies the data transformer of the run to replayed experience [B, T, ...], with its buffer and `batch_info`."""
        transformer = self.data_transformer
        return experience if transformer is None else transformer.transform_experience(experience)

    def set_replay_buffer(self, num_envs: int, max_length: int, prioritized_sampling: bool = False) -> None:
        """Gives this algorithm a replay buffer, made when the first experience shows what it holds.

        Args:
            num_envs: environments that it stores.
            max_length: steps of each environment that it holds.
            prioritized_sampling: sample by priority.
        """
        self.learning.plan_buffer(num_envs, max_length, prioritized_sampling)

    @property
    def replay_buffer(self) -> ReplayBuffer | None:
        """The replay buffer; None before the first step is stored, and where there is none."""
        return None if self._learning is None else self._learning.buffer

    def observe_for_replay(self, exp: Experience) -> None:
        """Stores a step of every environment, [B, ...], in the replay buffer."""
        self.learning.store(exp)

    def observe_rollout_for_replay(self, exp: Experience) -> None:
        """Stores the steps of a rollout, [T, B, ...], in the replay buffer."""
        self.learning.store_rollout(exp)

    def observe_for_metrics(self, time_step: TimeStep) -> None:
        """Feeds a time step, [B, ...], to the metrics; only RL algorithms have some."""

    def offline_rollout_info(self, experience: Experience, known: Nest = None) -> Nest:
        """What `preprocess_experience` and `train_step_offline` get as rollout info of offline data.

        By default what the data has of it, else, since others may have recorded it, the actions.

        Args:
            experience: [B, T, ...].
            known: specs of the infos of `rollout_step`, if they are known: then the actions are put into such a tuple.
        """
        if experience.rollout_info:
            return experience.rollout_info
        if nest.is_namedtuple(known) and "action" in known._fields:
            return type(known)(action=experience.action)
        return OfflineInfo(action=experience.action)

    # Learning.

    def train_sequences(self, inputs: Nest, state: Nest, rollout_info: Nest) -> Nest:
        """Infos [T, B, ...] of `train_step` on all steps of sequences [B, T, ...] at once."""
        return steps_at_once(self.train_step, self.train_state_spec, inputs, state, rollout_info).info

    def train_recurrent_sequences(self, inputs: Nest, state: Nest, rollout_info: Nest) -> Nest:
        """Infos [T, B, ...] of `train_step` on the steps of sequences [B, T, ...], one after the other."""
        return steps_in_order(self.train_step, inputs, state, rollout_info).info

    def calc_loss(self, info: Nest) -> LossInfo:
        """Returns `info`, [T, B, ...], if it is a `LossInfo` already; other algorithms override this."""
        if not isinstance(info, LossInfo):
            raise NotImplementedError(
                f"{type(self).__name__} gets {type(info).__name__} as info: define calc_loss(), or return a LossInfo as "
                "the info of train_step() and rollout_step()"
            )
        return info

    def update_with_gradient(
        self,
        loss_info: LossInfo,
        valid_masks: Tensor | None = None,
        weight: float = 1.0,
        batch_info: BatchInfo | None = None,
    ) -> tuple[LossInfo, list[tuple[str, Parameter]]]:
        """Makes one step of every optimizer.

        Args:
            loss_info: losses [T, B], and `scalar_loss`.
            valid_masks: [T, B], 0 for steps that do not count.
            weight: factor of the loss.
            batch_info: where the batch came from; its importance weights weigh the loss.

        Returns:
            The losses averaged to scalars, and the names and parameters that were updated.
        """
        optimizers, parameters = self.learning.optimized()
        settings = self.learning.settings
        if settings.summarize_gradient_noise_scale and summary.should_record_summaries():
            summarize_gradient_noise(self.name, loss_info.loss, valid_masks, parameters)
        loss_info = average(loss_info, valid_masks, importance_weights(settings, batch_info))
        # Those of the last update are in the cache, and would be given back to the system: the new ones take their place.
        for parameter in parameters:
            parameter.grad = None
        if step_optimizers(self, differentiate(self, loss_info, parameters, weight), parameters, optimizers):
            tell_update(self, loss_info)
        return loss_info, NamedParameters(self, parameters)

    def compute_gradients(self, batch: Experience | Sequence[Batch]) -> Gradients:
        """Gradients of the losses of sequences [B, T, ...], transformed and preprocessed; nothing is changed by it.

        Args:
            batch: experience, or batches whose losses are added.
        """
        return self.learning.compute_gradients([Batch(batch)] if isinstance(batch, Experience) else batch)

    def apply_gradients(self, gradients: Gradients) -> None:
        """Makes one step of every optimizer, and what follows an update: targets, schedules, counters.

        Args:
            gradients: from `compute_gradients`, of this algorithm or of a copy of it.
        """
        self.learning.apply_gradients(gradients)

    def train_from_unroll(self, experience: Experience, train_info: Nest) -> int:
        """Updates from a rollout, [T, B, ...]; returns the number of samples trained on."""
        return train_from_unroll(self, experience, train_info)

    def train_from_replay_buffer(self, update_global_counter: bool = False) -> int:
        """Updates from the replay buffer as the settings say; returns the number of samples trained on.

        Args:
            update_global_counter: whether minibatches may count for summaries; the root algorithm's only.
        """
        return self.learning.train_from_buffer(update_global_counter)

    def summarize_train(
        self,
        experience: Nest,
        train_info: Nest,
        loss_info: LossInfo,
        params: list[tuple[str, Parameter]] | None,
    ) -> None:
        """Writes summaries of an update: losses, and with the settings gradients and parameters."""
        summarize(self._name, loss_info, params, self._config)


@configurable
class Loss(Algorithm):
    """An algorithm whose input is a loss; for containers."""

    def __init__(self, loss_weight: float = 1.0, name: str = "LossAlg") -> None:
        """Makes the loss.

        Args:
            loss_weight: factor of the loss.
            name: name in summaries.
        """
        super().__init__(name=name)
        self._loss_weight = loss_weight

    def predict_step(self, inputs: Nest, state: Nest = ()) -> AlgStep:
        """Returns nothing: there is no loss in evaluation."""
        return AlgStep()

    def rollout_step(self, inputs: Nest, state: Nest = ()) -> AlgStep:
        """Keeps `inputs` for `calc_loss`, where it is used on-policy."""
        return AlgStep(info=inputs) if self.on_policy else AlgStep()

    def train_step(self, inputs: Nest, state: Nest = (), rollout_info: Nest = ()) -> AlgStep:
        """Keeps `inputs` for `calc_loss`."""
        return AlgStep(info=inputs)

    def calc_loss(self, info: Nest) -> LossInfo:
        """The weighted loss, [T, B]; `info` is a tensor [T, B, ...] or a `LossInfo`."""
        if isinstance(info, LossInfo):
            return nest.map_structure(lambda loss: self._loss_weight * loss, info)
        loss = info.flatten(2).mean(2) if info.ndim > 2 else info
        return LossInfo(loss=self._loss_weight * loss, extra=loss)
