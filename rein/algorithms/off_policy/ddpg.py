"""Deep deterministic policy gradient (Lillicrap et al. 2016, arXiv:1509.02971).

With the policy mu, its target mu', the critic Q and its target Q':

    critic:  y = r + gamma Q'(s', mu'(s')),  minimise (y - Q(s, a))^2                                       (eq. 4, 5)
    actor:   maximise Q(s, mu(s)); its gradient is dQ/da dmu/dtheta                                            (eq. 6)
    targets: theta' <- tau theta + (1 - tau) theta'                                                  (algorithm 1)
    explore: mu(s) + an Ornstein-Uhlenbeck process, clipped to the bounds                                      (eq. 7)

Beyond the paper: several critics, of which targets and actor take the lowest; vector rewards, with targets for each
dimension and a weighted sum for the actor; any `TDLoss` over longer sequences; recurrent networks; dQ/da may be clipped and
large actions punished (as for hindsight replay, Andrychowicz et al. 2017, appendix A). The actor's loss is the squared error
whose gradient is -dQ/da, so that no gradient of the critic's parameters is computed for it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rein import nest
from rein.algorithms.losses import OneStepTDLoss
from rein.algorithms.off_policy.continuous_actions import ContinuousActions, OrnsteinUhlenbeckNoise, replace_rows
from rein.algorithms.off_policy.critics import (
    Critics,
    action_gradient_loss,
    pessimistic,
    replicas_td_loss,
    sequence_priority,
    weighted_sum,
)
from rein.algorithms.off_policy.one_transition import check_one_transition, of_first_steps, policy_steps
from rein.algorithms.off_policy.sequences import merge_steps, put_steps
from rein.config import configurable
from rein.data_structures import AlgStep, BatchInfo, LossInfo, TimeStep
from rein.envs import Environment
from rein.framework.evaluation import default_epsilon_greedy
from rein.framework.minibatch import time_major
from rein.framework.off_policy_algorithm import OffPolicyAlgorithm
from rein.framework.trainer_config import TrainerConfig
from rein.nest import Nest
from rein.networks import ActorNetwork, CriticNetwork, Network
from rein.runtime.schedules import Scheduler, as_scheduler
from rein.specs import TensorSpec
from rein.statistics import TargetUpdater


class DdpgActorState(NamedTuple):
    """Recurrent states of acting and of the actor's loss."""

    actor: Nest = ()
    critics: Nest = ()


class DdpgCriticState(NamedTuple):
    """Recurrent states of the critic's loss."""

    critics: Nest = ()
    target_actor: Nest = ()
    target_critics: Nest = ()


class DdpgState(NamedTuple):
    """All recurrent states, and the exploration noise."""

    actor: DdpgActorState = DdpgActorState()
    critics: DdpgCriticState = DdpgCriticState()
    noise: Nest = ()


class DdpgCriticInfo(NamedTuple):
    """Values of the stored action and of the target policy's action."""

    q_values: Nest = ()
    target_q_values: Nest = ()


class DdpgInfo(NamedTuple):
    """What the losses need of a step; `rollout_step` fills `action` only."""

    reward: Nest = ()
    step_type: Nest = ()
    discount: Nest = ()
    action: Nest = ()
    action_distribution: Nest = ()
    actor_loss: Nest = ()
    critic: Nest = ()
    discounted_return: Nest = ()


class DdpgLossInfo(NamedTuple):
    """Losses by part."""

    actor: Nest = ()
    critic: Nest = ()


@configurable
class DdpgAlgorithm(OffPolicyAlgorithm):
    """Deep deterministic policy gradient, for continuous actions."""

    is_compilable = True

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        reward_spec: TensorSpec = TensorSpec(()),
        actor_network_ctor: Callable[..., Network] = ActorNetwork,
        critic_network_ctor: Callable[..., Network] = CriticNetwork,
        reward_weights: Sequence[float] | None = None,
        epsilon_greedy: float | None = None,
        calculate_priority: bool = False,
        env: Environment | None = None,
        config: TrainerConfig | None = None,
        ou_stddev: float | Scheduler = 0.2,
        ou_damping: float | Scheduler = 0.15,
        critic_loss_ctor: Callable[..., Any] | None = None,
        num_critic_replicas: int = 1,
        target_update_tau: float | Scheduler = 0.05,
        target_update_period: int = 1,
        rollout_random_action: float | Scheduler = 0.0,
        dqda_clipping: float | None = None,
        action_l2: float = 0,
        actor_optimizer: Any | None = None,
        critic_optimizer: Any | None = None,
        checkpoint: str | None = None,
        debug_summaries: bool = False,
        name: str = "DdpgAlgorithm",
        one_transition: bool = False,
    ) -> None:
        """Makes the algorithm.

        Args:
            observation_spec: specs of the observation.
            action_spec: nest of bounded continuous specs.
            reward_spec: a scalar, or a vector for several rewards.
            actor_network_ctor: called as `ctor(input_tensor_spec=, action_spec=)`; gives actions.
            critic_network_ctor: called as `ctor(input_tensor_spec=(observation_spec, action_spec))`; gives values.
            reward_weights: weights of the dimensions of a vector reward in what the actor maximises; None is 1 each.
            epsilon_greedy: chance of adding noise in evaluation; None takes it from the settings.
            calculate_priority: give priorities for prioritized replay.
            env: batched environment; for the root algorithm only.
            config: settings of the run; for the root algorithm only.
            ou_stddev: standard deviation of each increment of the exploration noise, in units of the action.
            ou_damping: share of the exploration noise that is lost at each step.
            critic_loss_ctor: called as `ctor(debug_summaries=)`; None is `OneStepTDLoss`.
            num_critic_replicas: critics; with several, the lowest counts.
            target_update_tau: how far targets move at each update of theirs.
            target_update_period: gradient updates from one update of the targets to the next.
            rollout_random_action: chance of a uniformly random action in a rollout step.
            dqda_clipping: largest absolute value of each element of dQ/da; None or 0 does not clip.
            action_l2: weight of the squared norm of the action in the actor's loss.
            actor_optimizer: of the actor; None leaves it to the parent.
            critic_optimizer: of the critics; None leaves them to the parent.
            checkpoint: ``"prefix@path"`` to load the parameters from.
            debug_summaries: write more summaries.
            name: name in summaries.
            one_transition: learn from the first step of sequences of two only, at half the cost.
        """
        actions = ContinuousActions(action_spec, name)
        actor = actor_network_ctor(input_tensor_spec=observation_spec, action_spec=action_spec)
        critic = critic_network_ctor(input_tensor_spec=(observation_spec, action_spec))
        critics = Critics(critic, num_critic_replicas, reward_spec)
        state_spec = DdpgState(
            actor=DdpgActorState(actor=actor.state_spec, critics=critics.state_spec),
            critics=DdpgCriticState(critics.state_spec, actor.state_spec, critics.state_spec),
        )
        super().__init__(
            observation_spec=observation_spec,
            action_spec=action_spec,
            train_state_spec=state_spec,
            rollout_state_spec=state_spec._replace(noise=actions.state_spec),
            predict_state_spec=DdpgState(actor=DdpgActorState(actor=actor.state_spec), noise=actions.state_spec),
            reward_spec=reward_spec,
            reward_weights=reward_weights,
            env=env,
            config=config,
            checkpoint=checkpoint,
            debug_summaries=debug_summaries,
            name=name,
        )
        check_one_transition(one_transition, config, state_spec, name)
        self._one_transition = one_transition
        self._actions = actions
        self._actor_network, self._target_actor_network = actor, actor.copy()
        self._critic_networks, self._target_critic_networks = critics, critics.copy()
        self._update_targets = TargetUpdater(
            [self._actor_network, self._critic_networks],
            [self._target_actor_network, self._target_critic_networks],
            tau=target_update_tau,
            period=target_update_period,
        )
        self._noise = OrnsteinUhlenbeckNoise(ou_stddev, ou_damping)
        self._rollout_random_action = as_scheduler(rollout_random_action)
        self._epsilon_greedy = default_epsilon_greedy(epsilon_greedy, config)
        self._critic_loss = (critic_loss_ctor or OneStepTDLoss)(debug_summaries=debug_summaries)
        self._calculate_priority = calculate_priority
        self._dqda_clipping = dqda_clipping
        self._action_l2 = action_l2
        if actor_optimizer is not None:
            self.add_optimizer(actor_optimizer, [actor])
        if critic_optimizer is not None:
            self.add_optimizer(critic_optimizer, [critics])

    def _trainable_attributes_to_ignore(self) -> list[str]:
        return ["_target_actor_network", "_target_critic_networks"]

    def convert_train_state_to_predict_state(self, state: DdpgState) -> DdpgState:
        """The state of the actor; noise starts anew."""
        return DdpgState(actor=state.actor._replace(critics=()))

    # Acting.

    def predict_step(self, inputs: TimeStep, state: DdpgState) -> AlgStep:
        """mu(s), or with chance `epsilon_greedy` with noise."""
        action, actor_state = self._actor_network(inputs.observation, state.actor.actor)
        noise = state.noise
        if self._epsilon_greedy > 0.0:
            noise = self._noise.step(noise, action)
            action = replace_rows(action, self._disturbed(action, noise), self._epsilon_greedy)
        return AlgStep(output=action, state=DdpgState(actor=DdpgActorState(actor=actor_state), noise=noise))

    def rollout_step(self, time_step: TimeStep, state: DdpgState) -> AlgStep:
        """mu(s) with noise, or with chance `rollout_random_action` a uniformly random action."""
        action, actor_state = self._actor_network(time_step.observation, state.actor.actor)
        noise = self._noise.step(state.noise, action)
        action = self._disturbed(action, noise)
        random_action = self._rollout_random_action()
        if random_action > 0.0:
            action = replace_rows(action, self._actions.uniform(time_step.step_type.shape[0]), random_action)
        new_state = state._replace(actor=state.actor._replace(actor=actor_state), noise=noise)
        if self.need_full_rollout_state():
            new_state = self._advance_critics(time_step.observation, action, state, new_state)
        return AlgStep(output=action, state=new_state, info=DdpgInfo(action=action))

    def _disturbed(self, action: Nest, noise: Nest) -> Nest:
        """Equation 7, within the bounds."""
        return self._actions.clip(nest.map_structure(lambda a, x: a + x, action, noise))

    def _advance_critics(self, observation: Nest, action: Nest, state: DdpgState, new_state: DdpgState) -> DdpgState:
        """Lets the recurrent networks that only learning uses see a step of the rollout."""
        pair = (observation, action)
        critics = DdpgCriticState(
            critics=self._critic_networks(pair, state.critics.critics)[1],
            target_actor=self._target_actor_network(observation, state.critics.target_actor)[1],
            target_critics=self._target_critic_networks(pair, state.critics.target_critics)[1],
        )
        actor = new_state.actor._replace(critics=self._critic_networks(pair, state.actor.critics)[1])
        return new_state._replace(actor=actor, critics=critics)

    # Learning.

    def preprocess_experience(
        self, root_inputs: TimeStep, rollout_info: DdpgInfo, batch_info: BatchInfo
    ) -> tuple[TimeStep, DdpgInfo]:
        """Hands recorded returns, where replay has them, to the critic's loss."""
        if isinstance(batch_info, BatchInfo) and isinstance(batch_info.discounted_return, Tensor):
            rollout_info = rollout_info._replace(discounted_return=batch_info.discounted_return)
        return root_inputs, rollout_info

    def train_step(self, inputs: TimeStep, state: DdpgState, rollout_info: DdpgInfo) -> AlgStep:
        """The actor's loss, and the values of the stored and of the target action, of steps [B, ...]."""
        observation = inputs.observation
        action, actor_loss, actor_state = self._actor_step(observation, state.actor)
        values, critics_state = self._critic_networks((observation, rollout_info.action), state.critics.critics)
        target, critic_state = self._target_step(observation, state.critics)
        info = DdpgInfo(
            reward=inputs.reward,
            step_type=inputs.step_type,
            discount=inputs.discount,
            actor_loss=actor_loss,
            critic=DdpgCriticInfo(values, target),
            discounted_return=rollout_info.discounted_return,
        )
        state = DdpgState(actor=actor_state, critics=critic_state._replace(critics=critics_state))
        return AlgStep(output=action, state=state, info=info)

    def train_sequences(self, inputs: TimeStep, state: Nest, rollout_info: DdpgInfo) -> DdpgInfo:
        """Like `train_step` on all steps of [B, T, ...], but without the values that no loss uses."""
        length = inputs.step_type.shape[1]
        acting, before_last, after_first = (
            policy_steps(self._one_transition, length, self._name),
            range(length - 1),
            range(1, length),
        )
        _, actor_loss, _ = self._actor_step(merge_steps(inputs.observation, acting), DdpgActorState())
        values, _ = self._critic_networks(merge_steps((inputs.observation, rollout_info.action), before_last))
        target, _ = self._target_step(merge_steps(inputs.observation, after_first), DdpgCriticState())
        reward, step_type, discount, discounted_return = time_major(
            (inputs.reward, inputs.step_type, inputs.discount, rollout_info.discounted_return)
        )
        return DdpgInfo(
            reward=reward,
            step_type=step_type,
            discount=discount,
            actor_loss=put_steps(actor_loss, acting, length),
            critic=DdpgCriticInfo(put_steps(values, before_last, length), put_steps(target, after_first, length)),
            discounted_return=discounted_return,
        )

    def _actor_step(self, observation: Nest, state: DdpgActorState) -> tuple[Nest, Tensor, DdpgActorState]:
        """Equation 6: mu(s), and a loss [B] whose gradient is -dQ/da dmu/dtheta."""
        action, actor_state = self._actor_network(observation, state.actor)
        values, critics_state = self._critic_networks((observation, action), state.critics)
        value = weighted_sum(pessimistic(values, self._reward_weights), self._reward_weights)
        loss = action_gradient_loss(value, action, self._dqda_clipping)
        if self._action_l2 > 0:
            squares = [leaf.square().flatten(1).sum(1) for leaf in nest.flatten(action)]
            loss = loss + self._action_l2 * sum(squares)
        return action, loss, DdpgActorState(actor=actor_state, critics=critics_state)

    def _target_step(self, observation: Nest, state: DdpgCriticState) -> tuple[Tensor, DdpgCriticState]:
        """Q'(s, mu'(s)), [B] or [B, D]."""
        with torch.no_grad():
            action, actor_state = self._target_actor_network(observation, state.target_actor)
            values, critics_state = self._target_critic_networks((observation, action), state.target_critics)
            target = pessimistic(values, self._reward_weights)
        return target, state._replace(target_actor=actor_state, target_critics=critics_state)

    def calc_loss(self, info: DdpgInfo) -> LossInfo:
        """The losses of actor and critics, [T, B]."""
        critic_loss = replicas_td_loss(self._critic_loss, info, info.critic.q_values, info.critic.target_q_values)
        priority = sequence_priority(critic_loss, info.step_type) if self._calculate_priority else ()
        loss = LossInfo(
            loss=info.actor_loss + critic_loss, priority=priority, extra=DdpgLossInfo(info.actor_loss, critic_loss)
        )
        return of_first_steps(loss, info.step_type) if self._one_transition else loss

    def after_update(self, root_inputs: Nest, info: DdpgInfo) -> None:
        """Moves the targets."""
        self._update_targets()
