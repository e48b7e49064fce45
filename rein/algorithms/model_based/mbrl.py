"""Control by planning with a learnt model (Chua et al. 2018, arXiv:1805.12114, algorithm 1).

At each step a planner looks for actions whose imagined consequences earn the most, and the first of them is taken:

    a_t .. a_{t+H-1} = argmin  -mean over particles and replicas of  sum_h r(x_{t+h}, a_{t+h-1})
                       x_{t+h} from the model of the dynamics, x_t what is observed

The model learns from the replay buffer how observations change, and a learnt reward what they earn. Rollout and evaluation
act alike; what is explored is what the model is wrong about. While `initial_collect_steps` are collected and the model has
learnt nothing yet, rollouts take uniformly random actions.

`LatentMbrlAlgorithm` in `latent_mbrl` plans with the dynamics and rewards of a representation learner instead.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rein import nest
from rein.algorithms.model_based.dynamics_learning import DeterministicDynamicsAlgorithm, DynamicsLearningAlgorithm
from rein.algorithms.model_based.imagination import imagined_costs, imagined_trajectories
from rein.algorithms.model_based.planning import PlanAlgorithm, PlannerState
from rein.algorithms.model_based.reward_learning import RewardEstimationAlgorithm
from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo, TimeStep
from rein.envs import Environment
from rein.framework import OffPolicyAlgorithm, TrainerConfig
from rein.framework.acting.epsilon_greedy import default_epsilon_greedy
from rein.nest import Nest
from rein.networks.layers.layer import check_sizes
from rein.networks.state import zero_state
from rein.specs import BoundedTensorSpec, TensorSpec

RewardModule = RewardEstimationAlgorithm | Callable[[TensorSpec, BoundedTensorSpec], RewardEstimationAlgorithm]
"""What gives rewards, or a function of (feature_spec, action_spec) that makes it."""


class MbrlState(NamedTuple):
    """States of the modules."""

    dynamics: Nest = ()
    reward: Nest = ()
    planner: Nest = ()


class MbrlInfo(NamedTuple):
    """Infos of the modules; `rollout_step` has nothing to store."""

    dynamics: Nest = ()
    reward: Nest = ()
    planner: Nest = ()


@configurable
class MbrlAlgorithm(OffPolicyAlgorithm):
    """Plans with a learnt model of the dynamics, for one continuous action."""

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: BoundedTensorSpec,
        reward_module: RewardModule | None,
        planner_module_ctor: Callable[..., PlanAlgorithm],
        feature_spec: TensorSpec | None = None,
        dynamics_module_ctor: Callable[..., DynamicsLearningAlgorithm] | None = None,
        reward_spec: TensorSpec = TensorSpec(()),
        particles_per_replica: int = 1,
        epsilon_greedy: float | None = None,
        env: Environment | None = None,
        config: TrainerConfig | None = None,
        dynamics_optimizer: Any | None = None,
        reward_optimizer: Any | None = None,
        planner_optimizer: Any | None = None,
        checkpoint: str | None = None,
        debug_summaries: bool = False,
        name: str = "MbrlAlgorithm",
    ) -> None:
        """Makes the algorithm.

        Args:
            observation_spec: spec of the observation, a single tensor.
            action_spec: of the action: one vector of real numbers with finite bounds.
            reward_module: gives the rewards of imagined steps; or a function of (feature_spec, action_spec) that makes it.
            planner_module_ctor: called as `ctor(feature_spec=, action_spec=)`; makes the planner.
            feature_spec: of what the model predicts; None is `observation_spec`, which it must be like.
            dynamics_module_ctor: called as `ctor(feature_spec=, action_spec=)`; makes the model. None is
                `DeterministicDynamicsAlgorithm`.
            reward_spec: a scalar, or a vector for several rewards, whose weighted sum a learnt reward learns.
            particles_per_replica: how often a plan is imagined by each replica; several make sense for a stochastic model.
            epsilon_greedy: handed to the planner, whose evaluation it may randomize; None takes it from the settings.
            env: batched environment; for the root algorithm only.
            config: settings of the run; for the root algorithm only.
            dynamics_optimizer: of the model of the dynamics; None leaves it to the parent.
            reward_optimizer: of the reward module; None leaves it to the parent.
            planner_optimizer: of the planner, if it has parameters; None leaves it to the parent.
            checkpoint: ``"prefix@path"`` to load the parameters from.
            debug_summaries: write more summaries.
            name: name in summaries.
        """
        feature_spec = _feature_spec(observation_spec, feature_spec, name)
        check_sizes(name, particles_per_replica=particles_per_replica)
        self._check_settings(config, name)
        planner = planner_module_ctor(feature_spec=feature_spec, action_spec=action_spec)
        dynamics, reward = self._make_model(feature_spec, action_spec, dynamics_module_ctor, reward_module, name)
        state_spec = MbrlState(
            dynamics=() if dynamics is None else dynamics.get_state_specs(),
            reward=() if reward is None else reward.train_state_spec,
            planner=planner.train_state_spec,
        )
        super().__init__(
            observation_spec=observation_spec,
            action_spec=action_spec,
            train_state_spec=state_spec,
            reward_spec=reward_spec,
            env=env,
            config=config,
            checkpoint=checkpoint,
            debug_summaries=debug_summaries,
            name=name,
        )
        self._feature_spec = feature_spec
        self._particles_per_replica = particles_per_replica
        self._epsilon_greedy = default_epsilon_greedy(epsilon_greedy, config)
        self._dynamics_module, self._reward_module, self._planner_module = dynamics, reward, planner
        planner.set_action_sequence_cost_func(self._cost_of_plans)
        self._has_learnt: Tensor
        self.register_buffer("_has_learnt", torch.tensor(False))
        for optimizer, module in ((dynamics_optimizer, dynamics), (reward_optimizer, reward)):
            if optimizer is not None and module is not None:
                self.add_optimizer(optimizer, [module])
        if planner_optimizer is not None:
            self.add_optimizer(planner_optimizer, [planner])

    @property
    def planner(self) -> PlanAlgorithm:
        """Who finds plans."""
        return self._planner_module

    def _model(self) -> tuple[DynamicsLearningAlgorithm, RewardEstimationAlgorithm]:
        assert self._dynamics_module is not None
        assert self._reward_module is not None
        return self._dynamics_module, self._reward_module

    # Acting.

    def predict_step(self, time_step: TimeStep, state: MbrlState) -> AlgStep:
        """The first action of a plan from what is observed."""
        action, planner_state = self._planner_module.predict_plan(time_step, state.planner, self._epsilon_greedy)
        return AlgStep(output=action, state=self._after_observation(time_step, state, planner_state))

    def rollout_step(self, time_step: TimeStep, state: MbrlState) -> AlgStep:
        """The same; a uniformly random action while there are steps to collect before the first update."""
        if not self._is_untrained():
            return self.predict_step(time_step, state)
        action = self._planner_module.uniform_action(time_step.step_type.shape[0])
        return AlgStep(output=action, state=self._after_observation(time_step, state, state.planner))

    def _is_untrained(self) -> bool:
        collects_first = self._config is not None and self._config.initial_collect_steps > 0
        return collects_first and not bool(self._has_learnt)

    def _after_observation(self, time_step: TimeStep, state: MbrlState, planner_state: PlannerState) -> MbrlState:
        dynamics = state.dynamics
        if self._dynamics_module is not None:
            dynamics = self._dynamics_module.update_state(time_step, dynamics)
        return MbrlState(dynamics, state.reward, planner_state)

    # Planning.

    @torch.no_grad()
    def _cost_of_plans(self, observation: Tensor, plans: Tensor) -> Tensor:
        """Minus the sum of imagined rewards, [B, M], of plans [B, M, H, A] from observations [B, d]."""
        dynamics, reward = self._model()
        return imagined_costs(dynamics, reward, observation, plans, self._particles_per_replica)

    def imagine(self, observation: Tensor, plan: Tensor) -> Tensor:
        """Where a plan leads, as every particle of every replica sees it.

        Args:
            observation: [B, d] where it begins.
            plan: [B, H, A].

        Returns:
            [B, particles, H + 1, d], the first of them `observation`.
        """
        return imagined_trajectories(self._model()[0], observation, plan, self._particles_per_replica)

    # Learning.

    def train_step(self, inputs: TimeStep, state: MbrlState, rollout_info: Nest = None) -> AlgStep:
        """The losses of the modules, of steps [B, ...]."""
        dynamics_module, reward_module = self._model()
        inputs = self._with_scalar_reward(inputs)
        dynamics = dynamics_module.train_step(inputs, state.dynamics, ())
        reward = reward_module.train_step(inputs, state.reward, ())
        planner = self._planner_module.train_step(inputs, state.planner, ())
        return AlgStep(
            state=MbrlState(dynamics.state, reward.state, planner.state),
            info=MbrlInfo(dynamics.info, reward.info, planner.info),
        )

    def train_sequences(self, inputs: TimeStep, state: Nest, rollout_info: Nest) -> MbrlInfo:
        """Infos [T, B, ...] of sequences [B, T, ...]; each step finds the observation before it in its sequence."""
        if nest.is_empty(state):
            first = zero_state(self._train_state_spec, inputs.step_type.shape[0], inputs.step_type.device)
        else:
            first = nest.index_nest(state, (slice(None), 0))
        return self.train_recurrent_sequences(inputs, first, rollout_info)

    def train_recurrent_sequences(self, inputs: TimeStep, state: MbrlState, rollout_info: Nest) -> MbrlInfo:
        """Infos [T, B, ...] of sequences [B, T, ...].

        Where states are not stored, what came before the first step of a sequence is not known: it has no loss.
        """
        dynamics_module, reward_module = self._model()
        inputs = self._with_scalar_reward(inputs)
        dynamics = dynamics_module.train_recurrent_sequences(inputs, state.dynamics, ())
        if self._config is not None and not self.use_rollout_state:
            dynamics = dynamics._replace(loss=nest.map_structure(_without_first_row, dynamics.loss))
        at_once = nest.is_empty(reward_module.train_state_spec)
        train_reward = reward_module.train_sequences if at_once else reward_module.train_recurrent_sequences
        return MbrlInfo(
            dynamics=dynamics,
            reward=train_reward(inputs, state.reward, ()),
            planner=self._planner_module.train_recurrent_sequences(inputs, state.planner, ()),
        )

    def calc_loss(self, training_info: MbrlInfo) -> LossInfo:
        """The sum of the losses of the modules; reward and planner have one if their info is a `LossInfo`."""
        losses = {"dynamics": self._model()[0].calc_loss(training_info.dynamics)}
        for field, module in (("reward", self._reward_module), ("planner", self._planner_module)):
            info = getattr(training_info, field)
            if isinstance(info, LossInfo):
                assert module is not None
                losses[field] = module.calc_loss(info)
        return _sum(losses)

    def after_update(self, root_inputs: Nest, training_info: MbrlInfo) -> None:
        """Lets the modules do what follows an update; from now on, rollouts plan."""
        self._has_learnt.fill_(True)
        info = MbrlInfo() if nest.is_empty(training_info) else training_info
        modules = (self._dynamics_module, self._reward_module, self._planner_module)
        for module, part in zip(modules, info, strict=True):
            if module is not None:
                module.after_update(root_inputs, part)

    def _with_scalar_reward(self, inputs: TimeStep) -> TimeStep:
        weights = self._reward_weights
        return inputs if weights is None else inputs._replace(reward=(inputs.reward * weights).sum(-1))

    # Builders.

    def _check_settings(self, config: TrainerConfig | None, name: str) -> None:
        if config is None or config.use_rollout_state:
            return
        if (config.mini_batch_length or int(config.unroll_length)) == 1:
            raise ValueError(
                f"{name} learns from pairs of steps, but mini_batch_length is 1: set use_rollout_state=True, which keeps the "
                "observation before, or make it 2 or more"
            )

    def _make_model(
        self,
        feature_spec: TensorSpec,
        action_spec: BoundedTensorSpec,
        dynamics_module_ctor: Callable[..., DynamicsLearningAlgorithm] | None,
        reward_module: RewardModule | None,
        name: str,
    ) -> tuple[DynamicsLearningAlgorithm | None, RewardEstimationAlgorithm | None]:
        if reward_module is None:
            raise ValueError(f"{name}: reward_module is None: give FixedRewardFunction, or LearnedRewardFunction")
        dynamics = (dynamics_module_ctor or DeterministicDynamicsAlgorithm)(
            feature_spec=feature_spec, action_spec=action_spec
        )
        reward = (
            reward_module
            if isinstance(reward_module, RewardEstimationAlgorithm)
            else reward_module(feature_spec, action_spec)
        )
        _check_reward(reward, feature_spec, action_spec, dynamics.num_replicas, name)
        return dynamics, reward


def _feature_spec(observation_spec: Nest, feature_spec: TensorSpec | None, name: str) -> TensorSpec:
    if not isinstance(observation_spec, TensorSpec):
        raise ValueError(
            f"{name} models how a single tensor changes, but the observation is {observation_spec}: combine the nest into "
            "one tensor, or compose it with a representation learner; goals beside the observation are not supported"
        )
    if feature_spec is not None and tuple(feature_spec.shape) != tuple(observation_spec.shape):
        raise ValueError(f"{name}: feature_spec is {feature_spec}, but what is observed is {observation_spec}")
    return observation_spec if feature_spec is None else feature_spec


def _check_reward(
    reward: RewardEstimationAlgorithm,
    feature_spec: TensorSpec,
    action_spec: BoundedTensorSpec,
    num_replicas: int,
    name: str,
) -> None:
    """Asks for a reward as planning will, and looks at its shape."""
    rows = (7,) if num_replicas == 1 else (7, num_replicas)
    state = zero_state(reward.predict_state_spec, 7)
    with torch.no_grad():
        given, _ = reward.compute_reward(feature_spec.zeros(rows), action_spec.zeros(rows), state)
    found = tuple(given.shape) if isinstance(given, Tensor) else f"of type {type(given).__name__}"
    if found != rows:
        observations, actions = (*rows, *feature_spec.shape), (*rows, *action_spec.shape)
        raise ValueError(
            f"{name}: {reward.name} gives rewards {found} for observations {observations} and actions "
            f"{actions}: they must be a tensor {rows}; reduce the last dimension and no other"
        )


def _without_first_row(loss: Tensor) -> Tensor:
    """Losses [T, B] with zeros at the first step."""
    return torch.cat([torch.zeros_like(loss[:1]), loss[1:]])


def _sum(losses: dict[str, LossInfo]) -> LossInfo:
    """The sum of losses and of scalar losses, where there are some; `extra` by name."""

    def total(parts: list[Nest]) -> Nest:
        tensors = [part for part in parts if isinstance(part, Tensor)]
        return sum(tensors[1:], start=tensors[0]) if tensors else ()

    return LossInfo(
        loss=total([loss.loss for loss in losses.values()]),
        scalar_loss=total([loss.scalar_loss for loss in losses.values()]),
        extra={name: loss.extra for name, loss in losses.items()},
    )
