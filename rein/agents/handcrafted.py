"""Algorithms that do not learn: a rule from observations to actions, with the interface of all others."""

import math
from typing import Any

import torch
from torch import Tensor

from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo, TimeStep
from rein.envs import Environment
from rein.framework import OffPolicyAlgorithm, TrainerConfig
from rein.nest import Nest
from rein.specs import BoundedTensorSpec, TensorSpec


@configurable
class HandcraftedAlgorithm(OffPolicyAlgorithm):
    """Base of algorithms that act by a rule: a subclass defines `_policy_func`."""

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        reward_spec: TensorSpec = TensorSpec(()),
        env: Environment | None = None,
        config: TrainerConfig | None = None,
        debug_summaries: bool = False,
        name: str = "Handcrafted",
    ) -> None:
        """Makes the algorithm.

        Args:
            observation_spec: specs of the observation.
            action_spec: bounded specs of the action.
            reward_spec: a scalar, or a vector for several rewards.
            env: batched environment; for the root algorithm only.
            config: settings of the run; for the root algorithm only.
            debug_summaries: write more summaries.
            name: name in summaries.
        """
        super().__init__(
            observation_spec=observation_spec,
            action_spec=action_spec,
            train_state_spec=(),
            reward_spec=reward_spec,
            env=env,
            config=config,
            debug_summaries=debug_summaries,
            name=name,
        )

    def _policy_func(self, observation: Nest) -> Nest:
        """The action [B, ...] for an observation [B, ...]."""
        raise NotImplementedError(f"{type(self).__name__} must define _policy_func(observation)")

    def predict_step(self, inputs: TimeStep, state: Nest = ()) -> AlgStep:
        """The action of the rule."""
        return AlgStep(output=self._policy_func(inputs.observation))

    def rollout_step(self, inputs: TimeStep, state: Nest = ()) -> AlgStep:
        """The action of the rule."""
        return AlgStep(output=self._policy_func(inputs.observation))

    def train_step(self, inputs: TimeStep, state: Nest = (), rollout_info: Nest = ()) -> AlgStep:
        """Nothing: there is nothing to learn."""
        return AlgStep()

    def calc_loss(self, info: Any) -> LossInfo:
        """No loss."""
        return LossInfo()


@configurable
class SimpleCarlaAlgorithm(HandcraftedAlgorithm):
    """Drives a car of the CARLA simulator straight to its goal, slower the nearer it is.

    The observation is a dict with ``"goal"`` [3]: where the goal is from the car, in metres forward, to the right and up.
    The action is [speed, direction, reverse]: the wanted speed from standing still (0) to the highest (the upper bound of
    the action), the direction of the goal from straight back on the left (-1) over ahead (0) to straight back on the right
    (1), and whether to drive backwards, which it never does. Turning towards a goal behind it, it drives slowly.
    """

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        reward_spec: TensorSpec = TensorSpec(()),
        distance_to_decelerate: float = 50.0,
        distance_to_stop: float = 1.0,
        env: Environment | None = None,
        config: TrainerConfig | None = None,
        debug_summaries: bool = False,
        name: str = "SimpleCarlaAlgorithm",
    ) -> None:
        """Makes the controller.

        Args:
            observation_spec: specs of the observation, with ``"goal"``.
            action_spec: [speed, direction, reverse], bounded.
            reward_spec: a scalar, or a vector for several rewards.
            distance_to_decelerate: metres from the goal where it begins to slow down.
            distance_to_stop: metres from the goal where it stands still.
            env: batched environment; for the root algorithm only.
            config: settings of the run; for the root algorithm only.
            debug_summaries: write more summaries.
            name: name in summaries.
        """
        if not isinstance(observation_spec, dict) or "goal" not in observation_spec:
            raise ValueError(f"{name}: the observation is {observation_spec}: it needs a field 'goal'")
        if tuple(observation_spec["goal"].shape) != (3,):
            raise ValueError(
                f"{name}: observation.goal is {observation_spec['goal']}: give metres [forward, right, up]"
            )
        if not isinstance(action_spec, BoundedTensorSpec) or tuple(action_spec.shape) != (3,):
            raise ValueError(
                f"{name}: the action is {action_spec}: it must be [speed, direction, reverse], with bounds"
            )
        if not 0.0 <= distance_to_stop < distance_to_decelerate:
            raise ValueError(
                f"{name}: distance_to_stop is {distance_to_stop}, distance_to_decelerate {distance_to_decelerate}: the "
                "first must be less, and not negative"
            )
        super().__init__(observation_spec, action_spec, reward_spec, env, config, debug_summaries, name)
        self._distance_to_decelerate = distance_to_decelerate
        self._distance_to_stop = distance_to_stop
        self._low = torch.tensor(action_spec.minimum)
        self._high = torch.tensor(action_spec.maximum)

    def _policy_func(self, observation: Nest) -> Tensor:
        forward, right = observation["goal"][:, 0], observation["goal"][:, 1]
        distance = torch.hypot(forward, right)
        span = self._distance_to_decelerate - self._distance_to_stop
        share = ((distance - self._distance_to_stop) / span).clamp(0.0, 1.0)
        direction = torch.atan2(right, forward) / math.pi
        # At full speed a car that should turn round would first drive far away.
        share = share * (1.0 - 0.8 * direction.abs())
        action = torch.stack([share * self._high[0], direction, torch.zeros_like(direction)], 1)
        return action.clamp(self._low, self._high)
