"""Proximal policy optimization (Schulman et al. 2017, arXiv:1707.06347).

Collects a rollout, computes advantages and returns for all of it (`preprocess_experience`), and makes several passes over
it in minibatches (`train_step`) with the clipped surrogate of `PPOLoss`. Use it with `loss_class=PPOLoss`.
"""

from typing import NamedTuple

from rein.algorithms.losses import ActorCriticLoss, PPOLoss, VTraceLoss
from rein.algorithms.on_policy.actor_critic import ActorCriticAlgorithm, ActorCriticInfo, ActorCriticState
from rein.config import configurable
from rein.data_structures import AlgStep, BatchInfo, TimeStep
from rein.distributions import map_params
from rein.framework.steps import batch_major, time_major
from rein.nest import Nest


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

    is_compilable = True

    @property
    def on_policy(self) -> bool:
        """False: it learns by `train_step` from the stored rollout."""
        return False

    @property
    def corrects_old_rollouts(self) -> bool:
        """Whether the loss takes into account that another policy made the rollout."""
        return isinstance(self._loss, VTraceLoss)

    def preprocess_experience(
        self, root_inputs: TimeStep, rollout_info: ActorCriticInfo, batch_info: BatchInfo
    ) -> tuple[TimeStep, PPOInfo]:
        """Computes advantages and returns of a rollout, [B, T, ...]."""
        return root_inputs, ppo_info(self._loss, rollout_info)

    def train_step(self, inputs: TimeStep, state: ActorCriticState, rollout_info: PPOInfo) -> AlgStep:
        """Evaluates the current policy and value at stored states."""
        distribution, value, state = self._evaluate(inputs.observation, state)
        return AlgStep(state=state, info=rollout_info._replace(action_distribution=distribution, value=value))

    def train_recurrent_sequences(self, inputs: TimeStep, state: ActorCriticState, rollout_info: PPOInfo) -> PPOInfo:
        """What `train_step` does on each step of sequences [B, T, ...], the networks unrolled in one call."""
        assert self._value_network is not None
        is_first, observation = inputs.is_first(), self._encode(inputs.observation)
        distribution, _ = self._actor_network.unroll(observation, state.actor, is_first)
        value, _ = self._value_network.unroll(observation, state.value, is_first)
        info = rollout_info._replace(action_distribution=distribution, value=value)
        return map_params(lambda tensor: tensor.transpose(0, 1), info)


def ppo_info(loss: ActorCriticLoss, rollout_info: ActorCriticInfo) -> PPOInfo:
    """What `train_step` needs of a rollout [B, T, ...], with advantages and returns unless the loss computes them."""
    info = PPOInfo(
        action=rollout_info.action,
        rollout_log_prob=rollout_info.log_prob,
        rollout_action_distribution=rollout_info.action_distribution,
        reward_weights=rollout_info.reward_weights,
    )
    segment = PPOInfo(step_type=rollout_info.step_type, discount=rollout_info.discount, reward=rollout_info.reward)
    if not isinstance(loss, PPOLoss) or loss.compute_advantages_internally:
        return info._replace(step_type=segment.step_type, discount=segment.discount, reward=segment.reward)
    segment, value = time_major((segment, rollout_info.value))
    returns, advantages = batch_major(loss.returns_and_advantages(segment, value))
    return info._replace(returns=returns, advantages=advantages)
