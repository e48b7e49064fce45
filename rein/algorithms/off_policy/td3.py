"""Twin delayed deep deterministic policy gradient (Fujimoto et al. 2018, arXiv:1802.09477).

Deterministic policy gradients with three changes against overestimated values, with pi the policy, pi' and Q' the targets:

    target policy smoothing:  a~ = clip(pi'(s') + clip(N(0, sigma~^2), -c, c), low, high)                     (eq. 14)
    clipped double Q:         y = r + gamma min_i Q'_i(s', a~),  minimise sum_i (y - Q_i(s, a))^2              (eq. 10)
    delayed updates:          every d-th update, move pi along dQ_1/da dpi/dphi, and then all targets         (section 5.2)
    explore:                  clip(pi(s) + N(0, sigma^2), low, high)                                       (algorithm 1)

sigma, sigma~ and c are shares of half of each action's range, so that they mean the same in every world. Beyond the paper:
more than two critics, vector rewards, any `TDLoss` over longer sequences, recurrent networks. The actor's loss is the squared
error whose gradient is -dQ_1/da; it is not computed at all in the updates that leave the actor alone.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rein import nest
from rein.algorithms.losses import OneStepTDLoss
from rein.algorithms.off_policy.continuous_actions import ContinuousActions, replace_rows
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
from rein.statistics.host_scalar import HostScalar


class Td3State(NamedTuple):
    """Recurrent states; evaluation needs that of the actor only."""

    actor: Nest = ()
    actor_critics: Nest = ()
    critics: Nest = ()
    target_actor: Nest = ()
    target_critics: Nest = ()


class Td3Info(NamedTuple):
    """What the losses need of a step; `rollout_step` fills `action` only."""

    reward: Nest = ()
    step_type: Nest = ()
    discount: Nest = ()
    action: Nest = ()
    actor_loss: Nest = ()
    q_values: Nest = ()
    target_q_values: Nest = ()
    discounted_return: Nest = ()


class Td3LossInfo(NamedTuple):
    """Losses by part; `actor` is missing in updates that leave the actor alone."""

    actor: Nest = ()
    critic: Nest = ()


@configurable
class Td3Algorithm(OffPolicyAlgorithm):
    """Twin delayed DDPG, for continuous actions."""

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
        critic_loss_ctor: Callable[..., Any] | None = None,
        num_critic_replicas: int = 2,
        target_update_tau: float | Scheduler = 0.005,
        actor_update_period: int = 2,
        rollout_noise: float | Scheduler = 0.1,
        rollout_random_action: float | Scheduler = 0.0,
        target_action_noise: float = 0.2,
        target_action_noise_limit: float = 0.5,
        dqda_clipping: float | None = None,
        actor_optimizer: Any | None = None,
        critic_optimizer: Any | None = None,
        checkpoint: str | None = None,
        debug_summaries: bool = False,
        name: str = "Td3Algorithm",
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
            critic_loss_ctor: called as `ctor(debug_summaries=)`; None is `OneStepTDLoss`.
            num_critic_replicas: critics; targets take the lowest.
            target_update_tau: how far targets move at each update of theirs.
            actor_update_period: gradient updates from one update of actor and targets to the next (d).
            rollout_noise: standard deviation of the exploration noise (sigma), as a share of half of the range.
            rollout_random_action: chance of a uniformly random action in a rollout step.
            target_action_noise: standard deviation of the noise on target actions (sigma~), as such a share.
            target_action_noise_limit: where that noise is cut off (c), as such a share.
            dqda_clipping: largest absolute value of each element of dQ/da; None or 0 does not clip.
            actor_optimizer: of the actor; None leaves it to the parent.
            critic_optimizer: of the critics; None leaves them to the parent.
            checkpoint: ``"prefix@path"`` to load the parameters from.
            debug_summaries: write more summaries.
            name: name in summaries.
            one_transition: learn from the first step of sequences of two only, at half the cost.
        """
        if actor_update_period < 1:
            raise ValueError(f"actor_update_period is {actor_update_period}: it must be at least 1 update")
        if target_action_noise < 0 or target_action_noise_limit < 0:
            raise ValueError(
                f"target_action_noise is {target_action_noise} and its limit {target_action_noise_limit}: neither may be "
                "negative"
            )
        actions = ContinuousActions(action_spec, name)
        actor = actor_network_ctor(input_tensor_spec=observation_spec, action_spec=action_spec)
        critic = critic_network_ctor(input_tensor_spec=(observation_spec, action_spec))
        critics = Critics(critic, num_critic_replicas, reward_spec)
        state_spec = Td3State(
            actor.state_spec, critics.state_spec, critics.state_spec, actor.state_spec, critics.state_spec
        )
        super().__init__(
            observation_spec=observation_spec,
            action_spec=action_spec,
            train_state_spec=state_spec,
            predict_state_spec=Td3State(actor=actor.state_spec),
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
            period=actor_update_period,
        )
        self._actor_update_period = actor_update_period
        self._num_updates = HostScalar(0)
        self._rollout_noise = as_scheduler(rollout_noise)
        self._rollout_random_action = as_scheduler(rollout_random_action)
        self._target_action_noise = target_action_noise
        self._target_action_noise_limit = target_action_noise_limit
        self._epsilon_greedy = default_epsilon_greedy(epsilon_greedy, config)
        self._critic_loss = (critic_loss_ctor or OneStepTDLoss)(debug_summaries=debug_summaries)
        self._calculate_priority = calculate_priority
        self._dqda_clipping = dqda_clipping
        if actor_optimizer is not None:
            self.add_optimizer(actor_optimizer, [actor])
        if critic_optimizer is not None:
            self.add_optimizer(critic_optimizer, [critics])

    def _trainable_attributes_to_ignore(self) -> list[str]:
        return ["_target_actor_network", "_target_critic_networks"]

    def convert_train_state_to_predict_state(self, state: Td3State) -> Td3State:
        """The state of the actor."""
        return Td3State(actor=state.actor)

    # Acting.

    def predict_step(self, inputs: TimeStep, state: Td3State) -> AlgStep:
        """pi(s), or with chance `epsilon_greedy` with noise."""
        action, actor_state = self._actor_network(inputs.observation, state.actor)
        if self._epsilon_greedy > 0.0:
            action = replace_rows(action, self._disturbed(action, self._rollout_noise()), self._epsilon_greedy)
        return AlgStep(output=action, state=Td3State(actor=actor_state))

    def rollout_step(self, inputs: TimeStep, state: Td3State) -> AlgStep:
        """pi(s) with noise, or with chance `rollout_random_action` a uniformly random action."""
        action, actor_state = self._actor_network(inputs.observation, state.actor)
        action = self._disturbed(action, self._rollout_noise())
        random_action = self._rollout_random_action()
        if random_action > 0.0:
            action = replace_rows(action, self._actions.uniform(inputs.step_type.shape[0]), random_action)
        new_state = state._replace(actor=actor_state)
        if self.need_full_rollout_state():
            pair = (inputs.observation, action)
            new_state = Td3State(
                actor=actor_state,
                actor_critics=self._critic_networks(pair, state.actor_critics)[1],
                critics=self._critic_networks(pair, state.critics)[1],
                target_actor=self._target_actor_network(inputs.observation, state.target_actor)[1],
                target_critics=self._target_critic_networks(pair, state.target_critics)[1],
            )
        return AlgStep(output=action, state=new_state, info=Td3Info(action=action))

    def _disturbed(self, action: Nest, stddev: float, limit: float | None = None) -> Nest:
        """The action [B, ...] with normal noise, within its bounds."""
        size = nest.get_nest_batch_size(action)
        noise = self._actions.normal(size, stddev, limit)
        return self._actions.clip(nest.map_structure(lambda a, x: a + x, action, noise))

    # Learning.

    def preprocess_experience(
        self, root_inputs: TimeStep, rollout_info: Td3Info, batch_info: BatchInfo
    ) -> tuple[TimeStep, Td3Info]:
        """Hands recorded returns, where replay has them, to the critic's loss."""
        if isinstance(batch_info, BatchInfo) and isinstance(batch_info.discounted_return, Tensor):
            rollout_info = rollout_info._replace(discounted_return=batch_info.discounted_return)
        return root_inputs, rollout_info

    def train_step(self, inputs: TimeStep, state: Td3State, rollout_info: Td3Info) -> AlgStep:
        """The values of the stored and of the target action and, when its turn has come, the actor's loss; [B, ...]."""
        observation = inputs.observation
        values, critics_state = self._critic_networks((observation, rollout_info.action), state.critics)
        target, state = self._target_step(observation, state)
        info = Td3Info(
            reward=inputs.reward,
            step_type=inputs.step_type,
            discount=inputs.discount,
            q_values=values,
            target_q_values=target,
            discounted_return=rollout_info.discounted_return,
        )
        if self._updates_actor():
            actor_loss, state = self._actor_step(observation, state)
            info = info._replace(actor_loss=actor_loss)
        return AlgStep(state=state._replace(critics=critics_state), info=info)

    def train_sequences(self, inputs: TimeStep, state: Nest, rollout_info: Td3Info) -> Td3Info:
        """Like `train_step` on all steps of [B, T, ...], but without the values that no loss uses."""
        length = inputs.step_type.shape[1]
        before_last, after_first = range(length - 1), range(1, length)
        values, _ = self._critic_networks(merge_steps((inputs.observation, rollout_info.action), before_last))
        target, _ = self._target_step(merge_steps(inputs.observation, after_first), Td3State())
        reward, step_type, discount, discounted_return = time_major(
            (inputs.reward, inputs.step_type, inputs.discount, rollout_info.discounted_return)
        )
        info = Td3Info(
            reward=reward,
            step_type=step_type,
            discount=discount,
            q_values=put_steps(values, before_last, length),
            target_q_values=put_steps(target, after_first, length),
            discounted_return=discounted_return,
        )
        if self._updates_actor():
            acting = policy_steps(self._one_transition, length, self._name)
            actor_loss, _ = self._actor_step(merge_steps(inputs.observation, acting), Td3State())
            info = info._replace(actor_loss=put_steps(actor_loss, acting, length))
        return info

    def update_form(self) -> bool:
        """Whether the actor learns too."""
        return self._updates_actor()

    def _updates_actor(self) -> bool:
        """Whether the update that is being prepared is one of every d that move actor and targets."""
        return (self._num_updates.get() + 1) % self._actor_update_period == 0

    def _actor_step(self, observation: Nest, state: Td3State) -> tuple[Tensor, Td3State]:
        """A loss [B] whose gradient is -dQ_1/da dpi/dphi."""
        action, actor_state = self._actor_network(observation, state.actor)
        values, critics_state = self._critic_networks((observation, action), state.actor_critics)
        value = weighted_sum(values[:, 0], self._reward_weights)
        loss = action_gradient_loss(value, action, self._dqda_clipping)
        return loss, state._replace(actor=actor_state, actor_critics=critics_state)

    @torch.no_grad()
    def _target_step(self, observation: Nest, state: Td3State) -> tuple[Tensor, Td3State]:
        """min_i Q'_i(s, a~), [B] or [B, D]; equations 10 and 14."""
        action, actor_state = self._target_actor_network(observation, state.target_actor)
        if self._target_action_noise > 0:
            action = self._disturbed(action, self._target_action_noise, self._target_action_noise_limit)
        values, critics_state = self._target_critic_networks((observation, action), state.target_critics)
        target = pessimistic(values, self._reward_weights)
        return target, state._replace(target_actor=actor_state, target_critics=critics_state)

    def calc_loss(self, info: Td3Info) -> LossInfo:
        """The losses of the critics and, when its turn has come, of the actor, [T, B]."""
        critic_loss = replicas_td_loss(self._critic_loss, info, info.q_values, info.target_q_values)
        priority = sequence_priority(critic_loss, info.step_type) if self._calculate_priority else ()
        loss = critic_loss + info.actor_loss if isinstance(info.actor_loss, Tensor) else critic_loss
        loss_info = LossInfo(loss=loss, priority=priority, extra=Td3LossInfo(info.actor_loss, critic_loss))
        return of_first_steps(loss_info, info.step_type) if self._one_transition else loss_info

    def after_update(self, root_inputs: Nest, info: Td3Info) -> None:
        """Counts the update and, when their turn has come, moves the targets."""
        self._num_updates.set(self._num_updates.get() + 1)
        self._update_targets()
