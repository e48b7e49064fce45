"""An agent that decides how long to repeat each action (Sharma et al. 2017, "Learning to Repeat", arXiv:1702.06054).

At a decision the agent picks an action a and a number k of steps to take it, as one mixed action (k, a). The k steps are one
step to the algorithm below: with the rewards r_1..r_k and discounts d_1..d_k on the way, its time step carries

    reward   = sum_i gamma^{i-1} r_i
    discount = gamma^{k-1} d_1 ... d_k

and as the TD loss of the algorithm applies gamma once more, values stay those of single steps. Only decisions are stored.
Episodes decide anew at their first step, and their last one is stored as where the last decision led.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Parameter

from rein import nest
from rein.algorithms.off_policy import SacAlgorithm
from rein.config import configurable
from rein.data_structures import AlgStep, BatchInfo, Experience, LossInfo, TimeStep
from rein.distributions import index_distributions
from rein.envs import Environment
from rein.framework import Algorithm, OffPolicyAlgorithm, RLAlgorithm, TrainerConfig
from rein.framework.updating.update_summaries import summarize
from rein.nest import Nest
from rein.runtime import summary
from rein.specs import BoundedTensorSpec, TensorSpec


class ActionRepeatState(NamedTuple):
    """Where the agent stands in its repetition."""

    rl: Nest = ()
    """State of the algorithm below."""
    action: Nest = ()
    """The action that is repeated."""
    steps: Any = ()
    """int64 [B], how often it will still be repeated."""
    k: Any = ()
    """int64 [B], the choice of the number of steps, less 1."""
    rl_discount: Any = ()
    """[B], what the next reward is discounted by."""
    rl_reward: Any = ()
    """[B] or [B, D], discounted rewards since the decision."""
    sample_rewards: Any = ()
    """[B] or [B, D], one of the rewards since the decision, drawn uniformly."""
    repr: Nest = ()
    """State of the representation learner."""


class ActionRepeatInfo(NamedTuple):
    """What the rollout notes about a step."""

    rl: Nest = ()
    """Info of the algorithm below."""
    repr: Nest = ()
    """Info of the representation learner."""
    is_decision: Any = ()
    """bool [B], whether the step is stored."""
    reward: Nest = ()
    discount: Nest = ()
    prev_action: Nest = ()
    """(k, action) that led here."""
    sample_rewards: Nest = ()


class ActionRepeatTrainInfo(NamedTuple):
    """Infos of training."""

    rl: Nest = ()
    repr: Nest = ()


@configurable
class DynamicActionRepeatAgent(OffPolicyAlgorithm):
    """Lets an off-policy algorithm for mixed actions choose how often each action is repeated."""

    is_compilable = True

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        reward_spec: TensorSpec = TensorSpec(()),
        env: Environment | None = None,
        config: TrainerConfig | None = None,
        K: int = 5,  # noqa: N803, the documented name
        rl_algorithm_cls: Callable[..., RLAlgorithm] = SacAlgorithm,
        representation_learner_cls: Callable[..., Algorithm] | None = None,
        reward_normalizer_ctor: Callable[..., Any] | None = None,
        gamma: float = 0.99,
        optimizer: Any | None = None,
        debug_summaries: bool = False,
        name: str = "DynamicActionRepeatAgent",
    ) -> None:
        """Makes the agent.

        Args:
            observation_spec: specs of the observation.
            action_spec: bounded specs of continuous actions.
            reward_spec: a scalar, or a vector for several rewards.
            env: batched environment.
            config: settings of the run.
            K: the most steps that an action is taken.
            rl_algorithm_cls: called as `cls(observation_spec=, action_spec=(number of steps, action_spec), reward_spec=,
                config=, debug_summaries=)`.
            representation_learner_cls: called as `cls(observation_spec=, action_spec=, debug_summaries=)`; its output is
                the observation of the algorithm, which trains it.
            reward_normalizer_ctor: makes a `RewardNormalizer`, which then normalizes the rewards of training; its
                statistics follow single rewards. Reward transformers of the run would see sums, so leave them out.
            gamma: discount of rewards while an action is repeated; that of the algorithm's critic loss.
            optimizer: default optimizer.
            debug_summaries: write more summaries.
            name: name in summaries.
        """
        _check_settings(name, action_spec, config, K, gamma)
        decision_spec = (BoundedTensorSpec((), torch.int64, 0, K - 1), action_spec)
        representation = None
        rl_observation_spec = observation_spec
        if representation_learner_cls is not None:
            representation = representation_learner_cls(
                observation_spec=observation_spec, action_spec=action_spec, debug_summaries=debug_summaries
            )
            rl_observation_spec = representation.output_spec  # type: ignore[attr-defined]
        rl = rl_algorithm_cls(
            observation_spec=rl_observation_spec,
            action_spec=decision_spec,
            reward_spec=reward_spec,
            config=config,
            debug_summaries=debug_summaries,
        )
        integer = TensorSpec((), torch.int64)
        predict = ActionRepeatState(
            rl=rl.predict_state_spec,
            action=action_spec,
            steps=integer,
            k=integer,
            repr=() if representation is None else representation.predict_state_spec,
        )
        super().__init__(
            observation_spec=observation_spec,
            action_spec=action_spec,
            reward_spec=reward_spec,
            predict_state_spec=predict,
            rollout_state_spec=predict._replace(
                rl=rl.rollout_state_spec,
                rl_discount=TensorSpec(()),
                rl_reward=reward_spec,
                sample_rewards=reward_spec,
                repr=() if representation is None else representation.rollout_state_spec,
            ),
            train_state_spec=ActionRepeatState(
                rl=rl.train_state_spec, repr=() if representation is None else representation.train_state_spec
            ),
            env=env,
            config=config,
            optimizer=optimizer,
            debug_summaries=debug_summaries,
            name=name,
        )
        self._rl = rl
        self._representation = representation
        self._gamma = gamma
        self._reward_normalizer = None
        if reward_normalizer_ctor is not None:
            self._reward_normalizer = reward_normalizer_ctor(observation_spec=(), reward_spec=reward_spec)

    def set_path(self, path: str) -> None:
        """Tells the parts where they are."""
        super().set_path(path)
        prefix = f"{path}." if path else ""
        self._rl.set_path(f"{prefix}rl")
        if self._representation is not None:
            self._representation.set_path(f"{prefix}repr")

    # Acting.

    def predict_step(self, time_step: TimeStep, state: ActionRepeatState) -> AlgStep:
        """Goes on with the action, or decides anew as the algorithm does in evaluation."""
        decides = self._decides(time_step, state)
        observed, representation = self._observe(time_step, state, "predict_step")
        decision = self._rl.predict_step(observed, state.rl)
        k, action = decision.output
        decided = state._replace(rl=decision.state, action=action, steps=k, k=k)
        new_state = _where(decides, decided, state._replace(steps=state.steps - 1))
        return AlgStep(output=new_state.action, state=new_state._replace(repr=representation.state), info=decision.info)

    def rollout_step(self, time_step: TimeStep, state: ActionRepeatState) -> AlgStep:
        """Goes on with the action, or decides anew and notes what the decision before led to."""
        decides = self._decides(time_step, state)
        state = self._collect_reward(time_step, state)
        prev_action = (state.k, state.action)
        discount = state.rl_discount * time_step.discount
        observed, representation = self._observe(
            time_step._replace(reward=state.rl_reward, discount=discount, prev_action=prev_action),
            state,
            "rollout_step",
        )
        decision = self._rl.rollout_step(observed, state.rl)
        k, action = decision.output
        decided = ActionRepeatState(
            rl=decision.state,
            action=action,
            steps=k,
            k=k,
            rl_discount=torch.ones_like(discount),
            rl_reward=torch.zeros_like(state.rl_reward),
            sample_rewards=torch.zeros_like(state.sample_rewards),
            repr=state.repr,
        )
        going_on = state._replace(steps=state.steps - 1, rl_discount=discount * self._gamma)
        new_state = _where(decides, decided, going_on)
        info = ActionRepeatInfo(
            rl=decision.info,
            repr=representation.info,
            is_decision=decides,
            reward=state.rl_reward,
            discount=discount,
            prev_action=prev_action,
            sample_rewards=state.sample_rewards,
        )
        return AlgStep(output=new_state.action, state=new_state._replace(repr=representation.state), info=info)

    def _decides(self, time_step: TimeStep, state: ActionRepeatState) -> Tensor:
        """Bool [B]: the action was taken often enough, or an episode begins or ends."""
        return (state.steps <= 0) | time_step.is_first() | time_step.is_last()

    def _collect_reward(self, time_step: TimeStep, state: ActionRepeatState) -> ActionRepeatState:
        """`state` with the reward of this step added; rewards of FIRST steps belong to nobody."""
        belongs = ~time_step.is_first()
        discount = torch.where(belongs, state.rl_discount, 1.0)
        reward = time_step.reward
        weight = nest.expand_dims_as(discount * belongs, reward)
        # The i-th of the rewards replaces the sample with chance 1 / i, which leaves each with the same chance.
        count = (state.k - state.steps + 1).clamp_min(1)
        replaces = nest.expand_dims_as(belongs & (torch.rand_like(discount) * count < 1.0), reward)
        return state._replace(
            rl_reward=torch.where(nest.expand_dims_as(belongs, reward), state.rl_reward, 0.0) + weight * reward,
            rl_discount=discount,
            sample_rewards=torch.where(replaces, reward, state.sample_rewards),
        )

    def _observe(self, time_step: TimeStep, state: ActionRepeatState, step: str) -> tuple[TimeStep, AlgStep]:
        """The time step that the algorithm below sees, and the step of the representation learner."""
        if self._representation is None:
            return time_step, AlgStep()
        representation = getattr(self._representation, step)(time_step, state.repr)
        return time_step._replace(observation=representation.output), representation

    # Learning.

    def observe_for_replay(self, exp: Experience) -> None:
        """Stores the steps of the environments that decided."""
        rows = exp.rollout_info.is_decision.nonzero().squeeze(1)
        if rows.numel() > 0:
            self.learning.store(index_distributions(self._decision(exp), rows))

    def example_for_replay(self) -> Experience:
        """A decision."""
        return self._decision(super().example_for_replay())

    def _decision(self, exp: Experience) -> Experience:
        """The step as the algorithm below should remember it."""
        info = exp.rollout_info
        time_step = exp.time_step._replace(
            reward=info.reward, discount=info.discount, prev_action=info.prev_action, untransformed=()
        )
        info = ActionRepeatInfo(rl=info.rl, repr=info.repr, sample_rewards=info.sample_rewards)
        state = nest.prune_nest_like(exp.state, self._train_state_spec, ()) if self.need_full_rollout_state() else ()
        return exp._replace(time_step=time_step, action=(), rollout_info=info, state=state)

    def preprocess_experience(
        self, root_inputs: TimeStep, rollout_info: ActionRepeatInfo, batch_info: BatchInfo
    ) -> tuple[TimeStep, ActionRepeatInfo]:
        """Normalizes rewards [B, T] if a normalizer was given, then lets the algorithm below prepare."""
        if self._reward_normalizer is not None:
            normalizer = self._reward_normalizer.normalizer
            normalizer.update(rollout_info.sample_rewards)
            reward = normalizer.normalize(root_inputs.reward, self._reward_normalizer.clip_value)
            root_inputs = root_inputs._replace(reward=reward)
        root_inputs, rl = self._rl.preprocess_experience(root_inputs, rollout_info.rl, batch_info)
        return root_inputs, ActionRepeatInfo(rl=rl, repr=rollout_info.repr)

    def train_step(self, inputs: TimeStep, state: ActionRepeatState, rollout_info: ActionRepeatInfo) -> AlgStep:
        """The training step of the algorithm below, on decisions."""
        representation = AlgStep()
        if self._representation is not None:
            representation = self._representation.train_step(inputs, state.repr, rollout_info.repr)
            inputs = inputs._replace(observation=representation.output)
        step = self._rl.train_step(inputs, state.rl, rollout_info.rl)
        return AlgStep(
            output=step.output,
            state=ActionRepeatState(rl=step.state, repr=representation.state),
            info=ActionRepeatTrainInfo(step.info, representation.info),
        )

    def train_sequences(self, inputs: TimeStep, state: Nest, rollout_info: ActionRepeatInfo) -> ActionRepeatTrainInfo:
        """Like `train_step` on all steps of [B, T, ...], by what the algorithm below leaves out."""
        if self._representation is not None:
            return super().train_sequences(inputs, state, rollout_info)
        return ActionRepeatTrainInfo(self._rl.train_sequences(inputs, (), rollout_info.rl))

    def calc_loss(self, info: ActionRepeatTrainInfo) -> LossInfo:
        """The loss of the algorithm below, which trains the representation too."""
        return self._rl.calc_loss(info.rl)

    def after_update(self, root_inputs: Nest, info: ActionRepeatTrainInfo) -> None:
        """Lets the parts do what follows an update; compiled updates have no info."""
        info = info or ActionRepeatTrainInfo()
        self._rl.after_update(root_inputs, info.rl)
        if self._representation is not None:
            self._representation.after_update(root_inputs, info.repr)

    def summarize_train(
        self,
        experience: Experience,
        train_info: Nest,
        loss_info: LossInfo,
        params: list[tuple[str, Parameter]] | None,
    ) -> None:
        """Writes losses only: the actions of training are decisions, not those of the environment."""
        summarize(self._name, loss_info, params, self._config)

    def summarize_rollout(
        self, experience: Experience, custom_summary: Callable[[Experience], None] | None = None
    ) -> None:
        """Writes how long actions are repeated, besides what others write."""
        super().summarize_rollout(experience, custom_summary)
        steps = experience.rollout_info.prev_action[0] + 1
        summary.scalar(f"{self._name}/steps_per_decision", steps.float().mean())


def _where(condition: Tensor, yes: Nest, no: Nest) -> Any:
    """A nest with the rows of `yes` where `condition` [B] holds, else those of `no`."""
    return nest.map_structure(lambda a, b: torch.where(nest.expand_dims_as(condition, a), a, b), yes, no)


def _check_settings(name: str, action_spec: Nest, config: TrainerConfig | None, most: int, gamma: float) -> None:
    for path, spec in nest.flatten_with_paths(action_spec):
        if not isinstance(spec, BoundedTensorSpec) or not spec.is_continuous:
            raise ValueError(f"{name}: action {path!r} must be continuous with bounds, got {spec!r}")
    if most < 1:
        raise ValueError(f"{name}: K is {most}: an action is taken at least once")
    if not 0.0 <= gamma <= 1.0:
        raise ValueError(f"{name}: gamma is {gamma}: it must be in [0, 1]")
    if config is not None and config.whole_replay_buffer_training:
        raise ValueError(
            f"{name}: only decisions are stored, so there is no rollout to train on as a whole: set "
            "whole_replay_buffer_training=False"
        )
