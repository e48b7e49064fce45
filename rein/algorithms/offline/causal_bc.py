"""Causal behaviour cloning: ResiduIL (Swamy et al. 2022, "Causal Imitation Learning under Temporally Correlated Noise").

Where noise on the expert's actions lasts for longer than a step, the observation s_t already shows what the noise at
t - 1 did, and so predicts the noise at t: cloning learns that instead of what the expert meant. The observation before,
s_{t-1}, is a witness: whatever of the error can be told from it comes from the expert and not from noise. With

    m_t = mode of pi(s_t),  e_t = a_t - m_t,  f_t = D(s_t)  of the size A of the action,

the losses of the pair (t - 1, t) are

    policy         mean_A(2 e_t f_{t-1}) + bc_regulatization_weight mean_A(e_t^2)            f without gradient
    discriminator  -mean_A(2 e_t f_{t-1} - f_{t-1}^2) + f_norm_penalty_weight |f_{t-1}|      e without gradient

At the optimum f_{t-1} = E[e_t | s_{t-1}], and the policy moves to make it vanish.

The losses stand at t - 1. A pair does not count unless its second step lies within the same episode and an action was
taken there. |f| is the Euclidean norm of each pair by itself, so that the penalty does not depend on the batch.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rein import nest
from rein.algorithms.offline.policies import (
    check_continuous,
    check_length,
    flatten_action,
    make_head,
    require_two_steps,
)
from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo, StepType, TimeStep
from rein.distributions import epsilon_greedy_sample, sample_action_distribution
from rein.envs import Environment
from rein.framework import OffPolicyAlgorithm, TrainerConfig
from rein.framework.acting.epsilon_greedy import default_epsilon_greedy
from rein.nest import Nest
from rein.networks import ActorNetwork, EncodingNetwork, Network, Sequential
from rein.networks.layers import FC
from rein.specs import TensorSpec


class BcState(NamedTuple):
    """Recurrent states."""

    actor: Nest = ()
    discriminator: Nest = ()


class BcInfo(NamedTuple):
    """What the losses need of a step; `rollout_step` fills `action` only."""

    actor: Nest = ()
    """[B, A] m, the mode of the policy."""
    discriminator: Nest = ()
    """[B, A] f, the residual."""
    target: Nest = ()
    """[B, A] a, what was done."""
    step_type: Nest = ()
    action: Nest = ()


class BcLossInfo(NamedTuple):
    """Losses by part."""

    actor: Nest = ()
    discriminator: Nest = ()


@configurable
class CausalBcAlgorithm(OffPolicyAlgorithm):
    """Behaviour cloning that is not misled by noise which lasts for several steps; for continuous actions."""

    is_compilable = True

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        reward_spec: TensorSpec = TensorSpec(()),
        actor_network_cls: Callable[..., Network] = ActorNetwork,
        discriminator_network_cls: Callable[..., Network] = EncodingNetwork,
        actor_optimizer: Any | None = None,
        discriminator_optimizer: Any | None = None,
        f_norm_penalty_weight: float = 0.001,
        bc_regulatization_weight: float = 0.05,
        env: Environment | None = None,
        config: TrainerConfig | None = None,
        checkpoint: str | None = None,
        debug_summaries: bool = False,
        epsilon_greedy: float | None = None,
        name: str = "CausalBcAlgorithm",
    ) -> None:
        """Makes the algorithm.

        Args:
            observation_spec: specs of the observation.
            action_spec: nest of specs of continuous actions, of A elements in all.
            reward_spec: not used.
            actor_network_cls: called as `cls(input_tensor_spec=, action_spec=)`; gives actions, or distributions, of
                which the mode is taken.
            discriminator_network_cls: called as `cls(input_tensor_spec=)`; gives a vector. Unless that has A elements, a
                linear layer from it to A is added.
            actor_optimizer: of the actor; None leaves it to the parent.
            discriminator_optimizer: of the discriminator; None leaves it to the parent.
            f_norm_penalty_weight: of the norm of the residual.
            bc_regulatization_weight: of the squared error.
            env: batched environment; for the root algorithm only.
            config: settings of the run; for the root algorithm only.
            checkpoint: ``"prefix@path"`` to load the parameters from.
            debug_summaries: write more summaries.
            epsilon_greedy: chance of sampling in evaluation; None takes it from the settings.
            name: name in summaries.
        """
        check_continuous(action_spec, name)
        check_length(config, name)
        for key, value in (
            ("f_norm_penalty_weight", f_norm_penalty_weight),
            ("bc_regulatization_weight", bc_regulatization_weight),
        ):
            if not value >= 0.0:
                raise ValueError(f"{name}: {key} is {value}: it must not be negative")
        actor = actor_network_cls(input_tensor_spec=observation_spec, action_spec=action_spec)
        size = sum(spec.numel for spec in nest.flatten(action_spec))
        discriminator = _with_output(discriminator_network_cls(input_tensor_spec=observation_spec), size, name)
        super().__init__(
            observation_spec=observation_spec,
            action_spec=action_spec,
            reward_spec=reward_spec,
            train_state_spec=BcState(actor.state_spec, discriminator.state_spec),
            predict_state_spec=BcState(actor.state_spec),
            env=env,
            config=config,
            checkpoint=checkpoint,
            debug_summaries=debug_summaries,
            name=name,
        )
        self._actor_network = actor
        self._discriminator_network = discriminator
        self._head = make_head(actor, action_spec, name)
        self._f_norm_penalty_weight = f_norm_penalty_weight
        self._bc_regulatization_weight = bc_regulatization_weight
        self._epsilon_greedy = default_epsilon_greedy(epsilon_greedy, config)
        if actor_optimizer is not None:
            self.add_optimizer(actor_optimizer, [actor])
        if discriminator_optimizer is not None:
            self.add_optimizer(discriminator_optimizer, [discriminator])

    # Acting.

    def predict_step(self, inputs: TimeStep, state: BcState) -> AlgStep:
        """The mode of the policy, or with chance `epsilon_greedy` a sample."""
        output, actor_state = self._actor_network(inputs.observation, state.actor)
        action = epsilon_greedy_sample(self._head.distribution(output), self._epsilon_greedy)
        return AlgStep(output=action, state=BcState(actor_state))

    def rollout_step(self, inputs: TimeStep, state: BcState) -> AlgStep:
        """A sample of the policy; with stored recurrent states, that of the discriminator is kept up too."""
        output, actor_state = self._actor_network(inputs.observation, state.actor)
        action = sample_action_distribution(self._head.distribution(output))
        residual_state = state.discriminator
        if self.need_full_rollout_state():
            _, residual_state = self._discriminator_network(inputs.observation, state.discriminator)
        return AlgStep(output=action, state=BcState(actor_state, residual_state), info=BcInfo(action=action))

    def convert_train_state_to_predict_state(self, state: BcState) -> BcState:
        """The state of the actor."""
        return BcState(state.actor)

    # Learning.

    def train_step(self, inputs: TimeStep, state: BcState, rollout_info: BcInfo) -> AlgStep:
        """The action of the policy, the residual, and what was done, at steps [B, ...]."""
        output, actor_state = self._actor_network(inputs.observation, state.actor)
        residual, residual_state = self._discriminator_network(inputs.observation, state.discriminator)
        mode = self._head.mode(output)
        info = BcInfo(
            actor=flatten_action(mode),
            discriminator=residual,
            target=flatten_action(rollout_info.action),
            step_type=inputs.step_type,
        )
        return AlgStep(output=mode, state=BcState(actor_state, residual_state), info=info)

    def calc_loss(self, info: BcInfo) -> LossInfo:
        """The losses of policy and discriminator, [T, B]; zero at the last step and where there is no pair."""
        require_two_steps(info.step_type, self.name)
        error = info.target[1:] - info.actor[1:]
        residual = info.discriminator[:-1]
        is_pair = (info.step_type[1:] == StepType.MID).to(error.dtype)
        actor = _padded(self._actor_loss(error, residual.detach()) * is_pair)
        discriminator = _padded(self._discriminator_loss(error.detach(), residual) * is_pair)
        return LossInfo(loss=actor + discriminator, extra=BcLossInfo(actor, discriminator))

    def _actor_loss(self, error: Tensor, residual: Tensor) -> Tensor:
        """mean_A(2 e f) + w mean_A(e^2), [T - 1, B]."""
        return (2.0 * error * residual + self._bc_regulatization_weight * error.square()).mean(-1)

    def _discriminator_loss(self, error: Tensor, residual: Tensor) -> Tensor:
        """-mean_A(2 e f - f^2) + w |f|, [T - 1, B]."""
        gain = (2.0 * error * residual - residual.square()).mean(-1)
        return self._f_norm_penalty_weight * torch.linalg.vector_norm(residual, dim=-1) - gain


def _with_output(network: Network, size: int, name: str) -> Network:
    """`network` if it can learn a vector of that size, else with a linear layer after it."""
    spec = network.output_spec
    if not isinstance(spec, TensorSpec) or spec.ndim != 1:
        raise ValueError(f"{name}: the discriminator network must give a vector, but it gives {spec}")
    if spec.shape == (size,) and any(True for _ in network.parameters()):
        return network
    return Sequential(network, FC(spec.numel, size), name="discriminator")


def _padded(loss: Tensor) -> Tensor:
    """A row of zeros after [T - 1, B]."""
    return torch.cat([loss, torch.zeros_like(loss[:1])])
