"""Proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347).

Collects a rollout, computes advantages and returns for all of it (`preprocess_experience`), and makes several passes over
it in minibatches (`train_step`) with the clipped surrogate of `PPOLoss`. Use it with `loss_class=PPOLoss`.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from rein.algorithms.losses import PPOLoss
from rein.algorithms.on_policy.actor_critic import ActorCriticAlgorithm, ActorCriticInfo, ActorCriticState
from rein.config import configurable
from rein.data_structures import AlgStep, BatchInfo, TimeStep
from rein.framework import minibatch
from rein.nest import Nest
from rein.ops import trajectory_advantage


class PPOInfo(NamedTuple):
    """What `PPOLoss` needs of a step."""

    step_type: Nest = ()
    discount: Nest = ()
    reward: Nest = ()
    action: Nest = ()
    rollout_log_prob: Nest = ()
    rollout_action_distribution: Nest = ()
    returns: Nest = ()
    advantages: Nest = ()
    action_distribution: Nest = ()
    value: Nest = ()
    reward_weights: Nest = ()


@configurable
class PPOAlgorithm(ActorCriticAlgorithm):
    """PPO: an actor-critic that makes several updates from each rollout."""

    @property
    def on_policy(self) -> bool:
        """False: it learns by `train_step` from the stored rollout."""
        return False

    def preprocess_experience(
        self, root_inputs: TimeStep, rollout_info: ActorCriticInfo, batch_info: BatchInfo
    ) -> tuple[TimeStep, PPOInfo]:
        """Computes advantages and returns of a rollout, [B, T, ...]."""
        info = PPOInfo(
            action=rollout_info.action,
            rollout_log_prob=rollout_info.log_prob,
            rollout_action_distribution=rollout_info.action_distribution,
            reward_weights=rollout_info.reward_weights,
        )
        if isinstance(self._loss, PPOLoss) and not self._loss.compute_advantages_internally:
            advantages = self._advantages(rollout_info)
            return root_inputs, info._replace(advantages=advantages, returns=rollout_info.value + advantages)
        info = info._replace(
            step_type=rollout_info.step_type, discount=rollout_info.discount, reward=rollout_info.reward
        )
        return root_inputs, info

    def _advantages(self, info: ActorCriticInfo) -> Tensor:
        """Generalized advantages, [B, T] or [B, T, D]; 0 at the last step, whose successor is not known."""
        gamma = self._loss.gamma
        discount = info.discount * gamma if gamma.ndim == 0 else info.discount[..., None] * gamma
        reward, value, step_type, discount = minibatch.time_major((info.reward, info.value, info.step_type, discount))
        advantages = trajectory_advantage(reward, value, step_type, discount, self._loss.td_lambda)
        return torch.cat([advantages, torch.zeros_like(advantages[:1])]).transpose(0, 1)

    def train_step(self, inputs: TimeStep, state: ActorCriticState, rollout_info: PPOInfo) -> AlgStep:
        """Evaluates the current policy and value at stored states."""
        distribution, value, state = self._evaluate(inputs.observation, state)
        return AlgStep(state=state, info=rollout_info._replace(action_distribution=distribution, value=value))
