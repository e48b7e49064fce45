"""Trust-region actor-critic: an actor-critic whose policy may not move too far in one update.

After each update the action distributions of the new policy are compared with those of the policy before it, on the same
observations. If the mean distance d exceeds its limit d_max, the update of the parameters is shrunk,

    w <- w_old + 0.9 d_max / d (w_new - w_old),

until it does not. The distance is ||logits_1 - logits_2||^2 for categorical distributions (a divergence hardly sees
changes of logits when the entropy is small), ||loc_1 - loc_2||^2 for deterministic ones, and
KL(d_1 || d_2) + KL(d_2 || d_1) otherwise.
"""

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple

from torch import Tensor

from rein import nest
from rein.algorithms.on_policy.actor_critic import ActorCriticAlgorithm
from rein.config import configurable
from rein.data_structures import AlgStep, BatchInfo, LossInfo, TimeStep
from rein.distributions import (
    Categorical,
    Deterministic,
    Distribution,
    index_distributions,
    kl_divergence,
    map_params,
    stack_distributions,
)
from rein.envs import Environment
from rein.framework.module_state import IncompatibleKeys
from rein.framework.rl_algorithm import RLAlgorithm
from rein.framework.trainer_config import TrainerConfig
from rein.nest import Nest
from rein.networks.state import reset_state, zero_state
from rein.optimizers import TrustedUpdater
from rein.runtime import summary
from rein.specs import TensorSpec


class TracExperience(NamedTuple):
    """What the old policy is compared on."""

    observation: Nest = ()
    step_type: Nest = ()
    state: Nest = ()
    action_param: Nest = ()
    prev_action: Nest = ()


class TracInfo(NamedTuple):
    """Info of a step: that of the actor-critic, and what the comparison needs."""

    action_distribution: Nest = ()
    observation: Nest = ()
    state: Nest = ()
    ac: Nest = ()
    prev_action: Nest = ()


@configurable
class TracAlgorithm(RLAlgorithm):
    """Limits how far each update of an actor-critic moves its policy."""

    takes_action_masks: ClassVar[bool] = True
    """Whether a mask of valid actions in the observation is respected, see `rein.networks.action_masks`."""

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        reward_spec: TensorSpec = TensorSpec(()),
        env: Environment | None = None,
        config: TrainerConfig | None = None,
        ac_algorithm_cls: Callable[..., ActorCriticAlgorithm] = ActorCriticAlgorithm,
        action_dist_clip_per_dim: float = 0.01,
        checkpoint: str | None = None,
        debug_summaries: bool = False,
        name: str = "TracAlgorithm",
    ) -> None:
        """Makes the algorithm.

        Args:
            observation_spec: specs of the observation.
            action_spec: bounded specs of the action.
            reward_spec: a scalar, or a vector for several rewards.
            env: batched environment; for the root algorithm only.
            config: settings of the run; for the root algorithm only.
            ac_algorithm_cls: the actor-critic, called as `cls(observation_spec=, action_spec=, reward_spec=, config=,
                debug_summaries=)`.
            action_dist_clip_per_dim: largest distance per dimension of the action.
            checkpoint: ``"prefix@path"`` to load the parameters from.
            debug_summaries: write more summaries.
            name: name in summaries.
        """
        if action_dist_clip_per_dim <= 0:
            raise ValueError(f"action_dist_clip_per_dim is {action_dist_clip_per_dim}: it must be positive")
        ac = ac_algorithm_cls(
            observation_spec=observation_spec,
            action_spec=action_spec,
            reward_spec=reward_spec,
            config=config,
            debug_summaries=debug_summaries,
        )
        super().__init__(
            observation_spec=observation_spec,
            action_spec=action_spec,
            reward_spec=reward_spec,
            train_state_spec=ac.train_state_spec,
            rollout_state_spec=ac.rollout_state_spec,
            predict_state_spec=ac.predict_state_spec,
            is_on_policy=ac.on_policy,
            env=env,
            config=config,
            checkpoint=checkpoint,
            debug_summaries=debug_summaries,
            name=name,
        )
        self._ac_algorithm = ac
        self._limits = nest.map_structure(lambda spec: action_dist_clip_per_dim * spec.numel, action_spec)
        # Trusts the parameters as they are: those of construction, after each update, and when a state was loaded.
        self._trusted_updater = TrustedUpdater(p for p in ac.parameters() if p.requires_grad)

    def set_path(self, path: str) -> None:
        """Tells the actor-critic where its info stands."""
        super().set_path(path)
        self._ac_algorithm.set_path(f"{path}.ac" if path else "ac")

    @property
    def reward_weights(self) -> Tensor | None:
        """Those of the actor-critic."""
        return self._ac_algorithm.reward_weights

    def set_reward_weights(self, reward_weights: Tensor) -> None:
        """Changes those of the actor-critic."""
        self._ac_algorithm.set_reward_weights(reward_weights)

    def get_extra_state(self) -> dict[str, Any]:
        """Nothing: its presence tells that there are new parameters to trust."""
        return {}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Trusts the parameters that were loaded before this is called."""
        self._trusted_updater.trust_present_parameters()

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, skip_preloded: bool = True
    ) -> IncompatibleKeys:
        """Restores what `state_dict` returned, and trusts it."""
        keys = super().load_state_dict(state_dict, strict, skip_preloded)
        self._trusted_updater.trust_present_parameters()
        return keys

    # Acting.

    def predict_step(self, inputs: TimeStep, state: Nest) -> AlgStep:
        """As the actor-critic does."""
        return self._ac_algorithm.predict_step(inputs, state)

    def rollout_step(self, inputs: TimeStep, state: Nest) -> AlgStep:
        """As the actor-critic does."""
        return self._with_context(self._ac_algorithm.rollout_step(inputs, state), inputs, state)

    def train_step(self, inputs: TimeStep, state: Nest, rollout_info: TracInfo) -> AlgStep:
        """As the actor-critic does."""
        return self._with_context(self._ac_algorithm.train_step(inputs, state, rollout_info.ac), inputs, state)

    def _with_context(self, step: AlgStep, inputs: TimeStep, state: Nest) -> AlgStep:
        info = TracInfo(
            action_distribution=step.info.action_distribution,
            observation=inputs.observation,
            state=self._ac_algorithm.convert_train_state_to_predict_state(state),
            ac=step.info,
            prev_action=inputs.prev_action,
        )
        return step._replace(info=info)

    # Learning.

    def preprocess_experience(
        self, root_inputs: TimeStep, rollout_info: TracInfo, batch_info: BatchInfo
    ) -> tuple[TimeStep, TracInfo]:
        """As the actor-critic does; what was recorded for the comparison is made anew by `train_step`."""
        root_inputs, ac_info = self._ac_algorithm.preprocess_experience(root_inputs, rollout_info.ac, batch_info)
        return root_inputs, TracInfo(ac=ac_info)

    def calc_loss(self, info: TracInfo) -> LossInfo:
        """The loss of the actor-critic."""
        return self._ac_algorithm.calc_loss(info.ac)

    def after_update(self, root_inputs: TimeStep, info: TracInfo) -> None:
        """Shrinks the update if it moved the policy too far."""
        self._ac_algorithm.after_update(root_inputs, info.ac)
        before = map_params(Tensor.detach, info.action_distribution)
        experience = TracExperience(
            observation=nest.detach(info.observation),
            step_type=root_inputs.step_type,
            state=nest.detach(info.state),
            prev_action=info.prev_action,
        )
        # Inside an agent the policy does not see what the environment shows, but what other parts made of it.
        inputs = root_inputs._replace(observation=experience.observation)

        def change() -> Nest:
            after = self._action_distributions(inputs, experience)
            return nest.map_structure(lambda old, new: distance(old, new).mean(), before, after)

        adjustment = self._trusted_updater.adjust_step(change, self._limits)
        if self._debug_summaries and summary.should_record_summaries():
            with summary.scope(self._name):
                summary.scalar("adjusted_fraction", adjustment.fraction)
                for path, value in nest.flatten_with_paths(adjustment.change):
                    summary.scalar(f"unadjusted_action_dist/{path}".rstrip("/"), value)

    def _action_distributions(self, inputs: TimeStep, experience: TracExperience) -> Nest:
        """Distributions of the present policy over recorded steps, [T, B]."""
        length, batch = experience.step_type.shape[:2]
        predict = self._ac_algorithm.predict_step
        if nest.is_empty(self.predict_state_spec):
            merged = nest.map_structure(lambda tensor: tensor.flatten(0, 1), inputs)
            step = predict(merged, self.predict_state_spec)
            return map_params(lambda t: t.reshape(length, batch, *t.shape[1:]), step.info.action_distribution)
        initial = zero_state(self.predict_state_spec, batch)
        state = nest.index_nest(experience.state, 0)
        distributions = []
        for t in range(length):
            time_step = index_distributions(inputs, t)
            step = predict(time_step, reset_state(state, time_step.is_first(), initial))
            state = step.state
            distributions.append(step.info.action_distribution)
        return stack_distributions(distributions)

    def after_train_iter(self, root_inputs: Any, rollout_info: Any) -> None:
        """As the actor-critic does."""
        self._ac_algorithm.after_train_iter(root_inputs, None if rollout_info is None else rollout_info.ac)


def distance(first: Distribution, second: Distribution) -> Tensor:
    """How far two action distributions are apart, [T, B]; see the top of this file."""
    if isinstance(first, Categorical) and isinstance(second, Categorical):
        return (first.logits - second.logits).square().sum(-1)
    if isinstance(first, Deterministic) and isinstance(second, Deterministic):
        difference = (first.mode - second.mode).square()
        return difference.flatten(2).sum(2) if difference.ndim > 2 else difference
    return kl_divergence(first, second) + kl_divergence(second, first)
