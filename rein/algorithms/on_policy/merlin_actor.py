"""The actor of MERLIN: acts on the code of the observation and what it reads from the predictor's memory.

h_t = LSTM(z_t, h_{t-1}),   r_t = what a key made of h_t reads from M_t
pi(a | sg(z_t), h_t, r_t),  V(z_t)
"""

from collections.abc import Callable
from typing import Any

import torch

from rein.algorithms.losses import ActorCriticLoss
from rein.algorithms.on_policy.actor_critic import ActorCriticInfo
from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo, TimeStep
from rein.distributions import epsilon_greedy_sample, sample_action_distribution
from rein.framework import OnPolicyAlgorithm
from rein.framework.acting.epsilon_greedy import default_epsilon_greedy
from rein.nest import Nest
from rein.networks import (
    ActorDistributionNetwork,
    LSTMEncodingNetwork,
    MemoryReader,
    MemoryState,
    MemoryWithUsage,
    NestConcat,
    Network,
    ValueNetwork,
)
from rein.specs import TensorSpec

_HIDDEN = (200,)


@configurable
class MemoryBasedActor(OnPolicyAlgorithm):
    """An actor-critic that reads a memory which somebody else writes."""

    def __init__(
        self,
        observation_spec: TensorSpec,
        action_spec: Nest,
        memory: MemoryWithUsage,
        reward_spec: TensorSpec = TensorSpec(()),
        epsilon_greedy: float | None = None,
        num_read_keys: int = 1,
        lstm_size: tuple[int, ...] = (256, 256),
        latent_dim: int = 200,
        loss: ActorCriticLoss | None = None,
        loss_class: Callable[..., ActorCriticLoss] = ActorCriticLoss,
        loss_weight: float = 1.0,
        debug_summaries: bool = False,
        name: str = "mba",
    ) -> None:
        """Makes the actor.

        Args:
            observation_spec: spec of the code, [latent_dim].
            action_spec: bounded specs of the action.
            memory: that of the predictor.
            reward_spec: a scalar, or a vector for several rewards.
            epsilon_greedy: chance of sampling in evaluation; None takes it from the settings.
            num_read_keys: number of reads at each step.
            lstm_size: sizes of the LSTM layers.
            latent_dim: size of the code.
            loss: the loss; None makes one of `loss_class`.
            loss_class: called as `loss_class(debug_summaries=)`.
            loss_weight: factor of the loss.
            debug_summaries: write more summaries.
            name: name in summaries.
        """
        if observation_spec != TensorSpec((latent_dim,)):
            raise ValueError(f"{name}: the observation is {observation_spec}: it must be a code of size {latent_dim}")
        lstm = LSTMEncodingNetwork(observation_spec, hidden_size=tuple(lstm_size), name=f"{name}.lstm")
        super().__init__(
            observation_spec=observation_spec,
            action_spec=action_spec,
            reward_spec=reward_spec,
            train_state_spec=lstm.state_spec,
            debug_summaries=debug_summaries,
            name=name,
        )
        self._memory = memory
        self._lstm = lstm
        self._reader = MemoryReader(lstm.output_spec.numel, memory, num_read_keys)
        readout_spec = TensorSpec((num_read_keys * memory.mem_dim,))
        self._actor_network = ActorDistributionNetwork(
            (observation_spec, lstm.output_spec, readout_spec),
            action_spec,
            preprocessing_combiner=NestConcat(),
            fc_layer_params=_HIDDEN,
            activation=torch.tanh,
        )
        value: Network = ValueNetwork(observation_spec, fc_layer_params=_HIDDEN, activation=torch.tanh)
        self._value_network = value if reward_spec.numel == 1 else value.make_parallel(reward_spec.numel)
        self._epsilon_greedy = default_epsilon_greedy(epsilon_greedy, None)
        self._loss = loss_class(debug_summaries=debug_summaries) if loss is None else loss
        self._loss_weight = loss_weight

    def predict_step(self, time_step: TimeStep, state: Nest, memory_state: MemoryState | None = None) -> AlgStep:
        """The mode of the policy, or with chance `epsilon_greedy` a sample.

        Args:
            time_step: its observation is the code, [B, latent_dim].
            state: of the LSTM.
            memory_state: what is in the memory; None is an empty one.
        """
        distribution, state = self._policy(time_step.observation, state, memory_state)
        action = epsilon_greedy_sample(distribution, self._epsilon_greedy)
        return AlgStep(output=action, state=state, info=ActorCriticInfo(action_distribution=distribution))

    def rollout_step(self, time_step: TimeStep, state: Nest, memory_state: MemoryState | None = None) -> AlgStep:
        """A sample of the policy, and what the loss needs; the arguments are those of `predict_step`."""
        distribution, state = self._policy(time_step.observation, state, memory_state)
        action, log_prob = sample_action_distribution(distribution, return_log_prob=True)
        value, _ = self._value_network(time_step.observation)
        weights: Nest = ()
        if self._reward_weights is not None:
            weights = self._reward_weights.repeat(time_step.step_type.shape[0], 1)
        info = ActorCriticInfo(
            step_type=time_step.step_type,
            discount=time_step.discount,
            reward=time_step.reward,
            action=action,
            log_prob=log_prob,
            action_distribution=distribution,
            value=value,
            reward_weights=weights,
        )
        return AlgStep(output=action, state=state, info=info)

    def _policy(self, code: torch.Tensor, state: Nest, memory_state: MemoryState | None) -> tuple[Any, Nest]:
        """The distribution of actions and the state of the LSTM."""
        if memory_state is None:
            memory_state = self._memory.initial_state(code.shape[0], code.device)
        hidden, state = self._lstm(code, state)
        # That the actor reads does not count as usage: the memory it leaves is dropped.
        readout, _ = self._reader(hidden, memory_state)
        distribution, _ = self._actor_network((code.detach(), hidden, readout))
        return distribution, state

    def calc_loss(self, info: ActorCriticInfo) -> LossInfo:
        """See `ActorCriticLoss`; times `loss_weight`."""
        loss = self._loss.calc_loss(info)
        return loss if self._loss_weight == 1.0 else loss._replace(loss=self._loss_weight * loss.loss)
