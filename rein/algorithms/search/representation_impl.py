"""Training a model for tree search from a replay buffer, as MuZero does (Schrittwieser et al. 2020, arXiv:1911.08265).

From a stored observation the model is unrolled R steps along the actions that were taken, and learns at each step to
predict the reward, the value and the policy that are known of it. The latent that enters the next step has its gradient
halved. With `reanalyze_ratio` values and policies are those that a slowly moving copy of the model gives today
(Schrittwieser et al. 2021, arXiv:2104.06294).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rein import nest
from rein.algorithms.search.construction import (
    SQRT_VALUE_LOSS,
    call_with_known,
    check_no_reward_transformer,
    priority_function,
)
from rein.algorithms.search.model_structures import ModelOutput, ModelState, ModelTarget
from rein.algorithms.search.modes import in_eval_mode
from rein.algorithms.search.reanalysis import Reanalysis, TdSteps
from rein.algorithms.search.symmetries import BoardSymmetries, SymmetryKind
from rein.algorithms.search.target_maker import TargetMaker, TargetSettings
from rein.config import configurable
from rein.data_structures import AlgStep, BatchInfo, LossInfo, TimeStep
from rein.distributions import map_params, stack_distributions
from rein.framework import OffPolicyAlgorithm, TrainerConfig
from rein.nest import Nest
from rein.specs import BoundedTensorSpec, TensorSpec
from rein.statistics import TargetUpdater
from rein.transforms import DataTransformer, create_data_transformer


class MuzeroInfo(NamedTuple):
    """What training a model needs of a step."""

    action: Nest = ()
    """[B, R, ...], the actions to unroll along."""
    value: Nest = ()
    """[B], the model's value when the step was collected."""
    target: Any = ()
    """`ModelTarget` [B, R + 1, ...]."""
    loss: Any = ()
    """`LossInfo` of `MCTSModel.calc_loss`, [B]."""


@configurable
class MuzeroRepresentationImpl(OffPolicyAlgorithm):
    """Trains a model, whose representation is its output."""

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: BoundedTensorSpec,
        model_ctor: Callable[..., Any],
        num_unroll_steps: int,
        td_steps: int,
        discount: float,
        reward_spec: TensorSpec = TensorSpec(()),
        recurrent_gradient_scaling_factor: float = 0.5,
        reward_transformer: Callable[[Tensor], Tensor] | None = None,
        calculate_priority: bool | None = None,
        train_reward_function: bool = True,
        train_game_over_function: bool = True,
        train_repr_prediction: bool = False,
        train_policy: bool = True,
        reanalyze_algorithm_ctor: Callable[..., Any] | None = None,
        reanalyze_ratio: float = 0.0,
        reanalyze_td_steps: int = 5,
        reanalyze_td_steps_func: TdSteps | None = None,
        reanalyze_batch_size: int | None = None,
        full_reanalyze: bool = False,
        priority_func: Callable[[LossInfo], Tensor] | str = SQRT_VALUE_LOSS,
        data_transformer_ctor: Any = None,
        data_augmenter: Callable[[Nest], Nest] | None = None,
        target_update_tau: float = 1.0,
        target_update_period: int = 1000,
        config: TrainerConfig | None = None,
        enable_amp: bool = True,
        random_action_after_episode_end: bool = False,
        optimizer: Any | None = None,
        checkpoint: str | None = None,
        debug_summaries: bool = False,
        name: str = "MuzeroRepresentationImpl",
        symmetry: SymmetryKind | None = None,
    ) -> None:
        """Makes the algorithm.

        Args:
            observation_spec: specs of the (transformed) observation.
            action_spec: bounded spec of the action.
            model_ctor: called as `ctor(observation_spec=, action_spec=, num_unroll_steps=, train_*=, debug_summaries=)`,
                without those arguments that it does not take; gives an `MCTSModel`.
            num_unroll_steps: R, steps that the model is unrolled in training.
            td_steps: steps before the bootstrap of value targets; -1: to the end of the episode, for rewards that come only
                there.
            discount: of rewards, per step.
            reward_spec: must be a scalar.
            recurrent_gradient_scaling_factor: factor of the gradient through each imagined step.
            reward_transformer: applied to stored rewards.
            calculate_priority: give priorities; None: as the settings of the run say.
            train_reward_function: learn rewards; if not, there should be rewards at the end of episodes only.
            train_game_over_function: learn the end of games.
            train_repr_prediction: learn to predict future representations.
            train_policy: learn a policy; a search needs it.
            reanalyze_algorithm_ctor: called as `ctor(observation_spec=, action_spec=, discount=, debug_summaries=, name=)`,
                and `model=` if it takes that; what searches in reanalysis.
            reanalyze_ratio: share of each batch that is reanalyzed.
            reanalyze_td_steps: steps before the bootstrap there.
            reanalyze_td_steps_func: called as `func(ages, reanalyze_td_steps, current_max_age)`; gives steps [B].
            reanalyze_batch_size: steps that are reanalyzed at once; None: all.
            full_reanalyze: search at all steps, in place of only those that need a policy.
            priority_func: gives priorities [B] of a `LossInfo` [T, B]; or a key of `construction.PRIORITY_FUNCTIONS`.
            data_transformer_ctor: of transformers for the observations; None takes those of the run.
            data_augmenter: changes observations [B, T, ...] before training, or [B, T * (R + 1), ...] with
                `train_repr_prediction`.
            target_update_tau: how far the copy of the model moves at each update of its own.
            target_update_period: gradient updates from one of these to the next.
            config: settings of the run.
            enable_amp: mixed precision in reanalysis, on accelerators.
            random_action_after_episode_end: unroll along random actions after the end of an episode; otherwise the last one
                is repeated.
            optimizer: of the model; None leaves it to the parent.
            checkpoint: ``"prefix@path"`` to load the parameters from.
            debug_summaries: write more summaries.
            name: name in summaries.
            symmetry: of a game on a board, "mirror" or "square": each sequence is learnt as one of its images, drawn by
                chance.
        """
        _check(td_steps, reanalyze_ratio, reanalyze_algorithm_ctor, reward_spec, config, name)
        super().__init__(
            observation_spec=observation_spec,
            action_spec=action_spec,
            reward_spec=reward_spec,
            train_state_spec=(),
            config=config,
            optimizer=optimizer,
            checkpoint=checkpoint,
            debug_summaries=debug_summaries,
            name=name,
        )
        arguments = {
            "observation_spec": observation_spec,
            "action_spec": action_spec,
            "num_unroll_steps": num_unroll_steps,
            "train_reward_function": train_reward_function,
            "train_game_over_function": train_game_over_function,
            "train_repr_prediction": train_repr_prediction,
            "train_policy": train_policy,
            "debug_summaries": debug_summaries,
        }
        self._model = call_with_known(model_ctor, arguments)
        self._num_unroll_steps, self._discount = num_unroll_steps, float(discount)
        self._gradient_scale = recurrent_gradient_scaling_factor
        # In a tuple, hidden from torch: whoever made it saves it.
        self._reward_transformer = (reward_transformer,)
        self._calculates_priority = _default_priority(calculate_priority, config)
        self._priority_func = priority_function(priority_func, name)
        self._learns_repr = train_repr_prediction
        self._augmenter = data_augmenter
        self._symmetries = None if symmetry is None else BoardSymmetries(symmetry, observation_spec, action_spec)
        self._own_transformer: DataTransformer | None = None
        if data_transformer_ctor is not None:
            self._own_transformer = create_data_transformer(data_transformer_ctor, observation_spec)
            check_no_reward_transformer(self._own_transformer, name)
        self._reanalyze_ratio = reanalyze_ratio
        self._target_model: Any = None
        self._reanalyzer: Any = None
        reanalysis: Reanalysis | None = None
        if reanalyze_ratio > 0.0:
            self._target_model = call_with_known(model_ctor, arguments)
            self._target_model.requires_grad_(False)
            self._target_model.eval()
            self._reanalyzer = self._make_reanalyzer(reanalyze_algorithm_ctor)
            self._update_target = TargetUpdater(
                self._model, self._target_model, target_update_tau, target_update_period
            )
            reanalysis = Reanalysis(
                self._reanalyzer,
                self._target_model,
                reanalyze_ratio,
                reanalyze_td_steps,
                reanalyze_td_steps_func,
                reanalyze_batch_size,
                full_reanalyze,
                enable_amp,
            )
        settings = TargetSettings(
            action_spec=action_spec,
            num_unroll_steps=num_unroll_steps,
            td_steps=td_steps,
            discount=self._discount,
            learns_rewards=train_reward_function,
            learns_policy=train_policy,
            learns_repr=train_repr_prediction,
            random_after_end=random_action_after_episode_end,
            reward_transformer=reward_transformer,
        )
        self._target_maker = TargetMaker(settings, self._transformer_of_steps, reanalysis)

    def _make_reanalyzer(self, ctor: Any) -> Any:
        arguments: dict[str, Any] = {
            "observation_spec": self._observation_spec,
            "action_spec": self._action_spec,
            "discount": self._discount,
            "debug_summaries": self._debug_summaries,
            "name": f"{self._name}.reanalyze",
        }
        algorithm = call_with_known(ctor, {**arguments, "model": self._target_model})
        if hasattr(algorithm, "set_model"):
            algorithm.set_model(self._target_model)
        return algorithm

    def _trainable_attributes_to_ignore(self) -> list[str]:
        return ["_target_model", "_reanalyzer"]

    @property
    def model(self) -> Any:
        """The model that is trained."""
        return self._model

    @property
    def reanalyze_ratio(self) -> float:
        """Share of each batch that is reanalyzed."""
        return self._reanalyze_ratio

    @property
    def output_spec(self) -> TensorSpec:
        """Spec of the representation."""
        spec: TensorSpec = self._model.repr_spec
        return spec

    # Acting: the representation.

    def predict_step(self, time_step: TimeStep, state: Nest) -> AlgStep:
        """Representations of observations [B, ...]."""
        with in_eval_mode(self._model):
            return AlgStep(output=self._model.initial_representation(time_step.observation), state=state)

    def rollout_step(self, time_step: TimeStep, state: Nest) -> AlgStep:
        """Representations of observations [B, ...], with their values as info."""
        with in_eval_mode(self._model):
            latent = self._model.initial_representation(time_step.observation)
            with torch.no_grad():
                value = self._model.initial_predict(latent).value
        return AlgStep(output=latent, state=state, info=MuzeroInfo(value=value))

    # Targets.

    def preprocess_experience(
        self, root_inputs: TimeStep, rollout_info: Nest, batch_info: BatchInfo
    ) -> tuple[TimeStep, MuzeroInfo]:
        """Makes the targets of sampled sequences [B, T, ...]."""
        action, target = self._target_maker.make(root_inputs.step_type.shape[1], batch_info, self.path)
        if self._symmetries is not None:
            drawn = self._symmetries.draw(len(action), action.device)
            root_inputs = root_inputs._replace(observation=self._symmetries.observation(drawn, root_inputs.observation))
            action, target = self._symmetries.moves(drawn, action), self._symmetries.target(drawn, target)
        root_inputs, target = self._augmented(root_inputs, target)
        return root_inputs, MuzeroInfo(action=action, target=target)

    def _transformer_of_steps(self) -> DataTransformer | None:
        if self._own_transformer is not None:
            return self._own_transformer
        transformer = self.data_transformer
        if transformer is not None:
            check_no_reward_transformer(transformer, self.name)
        return transformer

    def _augmented(self, root_inputs: TimeStep, target: ModelTarget) -> tuple[TimeStep, ModelTarget]:
        if self._augmenter is None:
            return root_inputs, target
        if not self._learns_repr:
            return root_inputs._replace(observation=self._augmenter(root_inputs.observation)), target
        sizes = target.beyond_episode_end.shape[1:]
        future = self._augmenter(nest.map_structure(lambda t: t.flatten(1, 2), target.observation))
        future = nest.map_structure(lambda t: t.unflatten(1, sizes), future)
        now = nest.map_structure(lambda t: t[:, :, 0], future)
        return root_inputs._replace(observation=now), target._replace(observation=future)

    # Learning.

    def train_step(self, exp: TimeStep, state: Nest, rollout_info: MuzeroInfo) -> AlgStep:
        """Unrolls the model from observations [B, ...] and compares it with the targets."""
        output = self._model.initial_inference(exp.observation)
        outputs = [output]
        for k in range(self._num_unroll_steps):
            step = self._model.recurrent_inference(output.state, rollout_info.action[:, k])
            latent = scale_gradient(step.state.state, self._gradient_scale)
            output = step._replace(state=step.state._replace(state=latent))
            outputs.append(output)
        loss = self._model.calc_loss(_stacked(outputs), rollout_info.target)
        return AlgStep(output=outputs[0].state.state, state=state, info=MuzeroInfo(loss=loss))

    def calc_loss(self, info: MuzeroInfo) -> LossInfo:
        """The losses [T, B], with priorities [B] where these are asked for."""
        loss: LossInfo = info.loss
        return loss._replace(priority=self._priority_func(loss).detach()) if self._calculates_priority else loss

    def after_update(self, root_inputs: Nest, info: MuzeroInfo) -> None:
        """Moves the copy of the model, and the weight of the entropy."""
        if self._reanalyzer is not None:
            self._update_target()
        extra = info.loss.extra if isinstance(info, MuzeroInfo) and isinstance(info.loss, LossInfo) else {}
        if "entropy" in extra:
            self._model.adjust_alpha(extra["entropy"].mean())


def scale_gradient(tensor: Tensor, factor: float) -> Tensor:
    """The same numbers, with a gradient multiplied by `factor`."""
    return tensor * factor + tensor.detach() * (1.0 - factor)


def _stacked(outputs: list[ModelOutput]) -> ModelOutput:
    """What the losses need of R + 1 outputs [B, ...], as [B, R + 1, ...]."""
    kept = [
        ModelOutput(
            value_pred=o.value_pred,
            reward_pred=o.reward_pred,
            action_distribution=o.action_distribution,
            game_over_logit=o.game_over_logit,
            state=ModelState(state=o.state.state),
        )
        for o in outputs
    ]
    stacked: ModelOutput = map_params(lambda tensor: tensor.transpose(0, 1), stack_distributions(kept))
    return stacked


def _default_priority(given: bool | None, config: TrainerConfig | None) -> bool:
    if given is not None:
        return given
    return config is not None and config.priority_replay


def _check(
    td_steps: int, ratio: float, ctor: Any, reward_spec: TensorSpec, config: TrainerConfig | None, name: str
) -> None:
    if td_steps < -1:
        raise ValueError(f"{name}: td_steps is {td_steps}: give 0 or more, or -1 for the end of the episode")
    if not 0.0 <= ratio <= 1.0:
        raise ValueError(f"{name}: reanalyze_ratio is {ratio}: it must be in [0, 1]")
    if ratio > 0 and ctor is None:
        raise ValueError(f"{name}: reanalyze_ratio is {ratio}: give reanalyze_algorithm_ctor too")
    if ratio > 0 and config is not None and not config.use_rollout_state:
        raise ValueError(f"{name}: reanalysis goes on from stored states: set use_rollout_state=True in the settings")
    if reward_spec.numel > 1:
        raise ValueError(f"{name} needs a scalar reward, but reward_spec is {reward_spec}: combine its dimensions")
