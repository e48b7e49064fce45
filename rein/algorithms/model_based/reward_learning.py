"""What planning believes about rewards: a known function of them, or a learnt one.

Both say what reward is earned where an action led: they get the *next* observation and the action before it, as a
planner has them after each imagined step.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from rein import nest
from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo, TimeStep
from rein.framework import Algorithm
from rein.nest import Nest
from rein.networks import DynamicsNetwork, Network
from rein.specs import BoundedTensorSpec, TensorSpec


@configurable
class RewardEstimationAlgorithm(Algorithm):
    """Base of what gives rewards in imagination; derive and define `compute_reward` and `train_step`."""

    def __init__(self, name: str = "RewardEstimationAlgorithm") -> None:
        """Makes the base.

        Args:
            name: name in summaries.
        """
        super().__init__(name=name)

    def compute_reward(self, obs: Tensor, action: Tensor, state: Nest) -> tuple[Tensor, Nest]:
        """The reward of having come somewhere by an action.

        Args:
            obs: [rows, d] where the action led, or [rows, n, d] as n models see it.
            action: [rows, A] or [rows, n, A].
            state: of this module.

        Returns:
            Reward [rows] or [rows, n], and the state.
        """
        self._missing("compute_reward")

    def train_step(self, time_step: TimeStep, state: Nest, rollout_info: Nest = None) -> AlgStep:
        """What there is to learn of a step; its `info` is a `LossInfo` with losses [B], or empty.

        Args:
            time_step: [B, ...] with the reward for having come here.
            state: of this module.
            rollout_info: not used.
        """
        self._missing("train_step")


@configurable
class FixedRewardFunction(RewardEstimationAlgorithm):
    """Gives the rewards of a known function; there is nothing to learn."""

    def __init__(self, reward_func: Callable[[Tensor, Tensor], Tensor], name: str = "FixedRewardFunction") -> None:
        """Keeps the function.

        Args:
            reward_func: from observations [..., d], where actions led, and these actions [..., A] to rewards [...]: it
                must reduce the last dimension and no other.
            name: name in summaries.
        """
        if not callable(reward_func):
            raise TypeError(f"{name}: reward_func is {reward_func!r}: give a function of (observation, action)")
        super().__init__(name=name)
        self._reward_func = reward_func

    def compute_reward(self, obs: Tensor, action: Tensor, state: Nest) -> tuple[Tensor, Nest]:
        """What the function gives, and `state` as it was."""
        return self._reward_func(obs, action), state

    def train_step(self, time_step: TimeStep, state: Nest = (), rollout_info: Nest = None) -> AlgStep:
        """Nothing, and no loss."""
        return AlgStep(state=state)


@configurable
class LearnedRewardFunction(RewardEstimationAlgorithm):
    """Learns the reward of the environment from where actions led, by half the squared error."""

    def __init__(
        self,
        observation_spec: TensorSpec,
        action_spec: BoundedTensorSpec,
        hidden_size: int | Sequence[int] = 256,
        reward_network_ctor: Callable[..., Network] | None = None,
        optimizer: Any | None = None,
        name: str = "LearnedRewardFunction",
    ) -> None:
        """Makes the function.

        Args:
            observation_spec: of the observation, a single tensor.
            action_spec: of the action, a single one.
            hidden_size: size(s) of the hidden layers of the network, if `reward_network_ctor` is None.
            reward_network_ctor: called as `ctor(input_tensor_spec=(observation_spec, action_spec),
                output_tensor_spec=TensorSpec(()))`; gives a reward. None is a `DynamicsNetwork`.
            optimizer: of the network; None leaves it to the parent.
            name: name in summaries.
        """
        super().__init__(name=name)
        sizes = (hidden_size,) if isinstance(hidden_size, int) else tuple(hidden_size)
        ctor = reward_network_ctor or partial(DynamicsNetwork, joint_fc_layer_params=sizes)
        network = ctor(input_tensor_spec=(observation_spec, action_spec), output_tensor_spec=TensorSpec(()))
        if network.is_rnn or network.output_spec != TensorSpec(()):
            raise ValueError(f"{name}: {network.name} must give one number, without a state; it gives {network}")
        self._reward_network = network
        self._observation_ndim, self._action_ndim = observation_spec.ndim, action_spec.ndim
        if optimizer is not None:
            self.add_optimizer(optimizer, [network])

    def compute_reward(self, obs: Tensor, action: Tensor, state: Nest) -> tuple[Tensor, Nest]:
        """The predicted reward, and `state` as it was; see `RewardEstimationAlgorithm`."""
        rows = obs.shape[: obs.ndim - self._observation_ndim]
        if len(rows) > 1:
            obs = obs.reshape(-1, *obs.shape[len(rows) :])
            action = action.reshape(-1, *action.shape[action.ndim - self._action_ndim :])
        reward, _ = self._reward_network((obs, action))
        return reward.reshape(rows), state

    def train_step(self, time_step: TimeStep, state: Nest = (), rollout_info: Nest = None) -> AlgStep:
        """The loss [B] of the reward that came with this time step; 0 at FIRST steps, which no action led to."""
        reward, state = self.compute_reward(time_step.observation, time_step.prev_action, state)
        loss = 0.5 * (reward - time_step.reward).square()
        loss = loss.masked_fill(time_step.is_first(), 0.0)
        return AlgStep(state=state, info=LossInfo(loss=loss, extra={"reward_loss": loss}))

    def calc_loss(self, info: LossInfo) -> LossInfo:
        """The mean of the losses [T, B] of all steps, LAST ones included, as `scalar_loss`."""
        loss = nest.map_structure(torch.mean, info)
        return LossInfo(scalar_loss=loss.loss, extra=loss.extra)
