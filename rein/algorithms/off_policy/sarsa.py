"""SARSA for continuous actions, with a policy that climbs the critic.

Rummery & Niranjan (1994), "On-line Q-learning using connectionist systems"; Sutton & Barto (2018), section 6.4. With a' the
action that the policy takes at s', Q' the slow copy of the critics, and alpha a temperature:

    critics: y = r + gamma min_i Q'_i(s', a'),  minimise sum_i (y - Q_i(s, a))^2
    actor:   maximise min_i Q_i(s, a(s)) - alpha log pi(a(s) | s); its gradient goes through dQ/da
    alpha:   minimise log_alpha (-log pi(a | s) - target entropy), without gradient to pi

On-policy, a' is the very action that was taken next, and the update is made from the rollout itself. Off-policy, transitions
come from replay, where the next action is an old one: a' is what the current policy would do. A deterministic actor explores
by an Ornstein-Uhlenbeck process and has no temperature (as DDPG); a stochastic one samples (as SAC).

Every step evaluates Q at its own observation and action, so `SarsaState.prev_observation` and `prev_step_type`, which the
documentation names, stay empty.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rein import nest
from rein.algorithms.losses import OneStepTDLoss
from rein.algorithms.off_policy.continuous_actions import ContinuousActions, OrnsteinUhlenbeckNoise
from rein.algorithms.off_policy.critics import (
    Critics,
    action_gradient_loss,
    pessimistic,
    replicas_td_loss,
    sequence_priority,
    weighted_sum,
)
from rein.algorithms.off_policy.one_transition import check_one_transition, of_first_steps, policy_steps
from rein.algorithms.off_policy.sarsa_policies import DeterministicPolicy, PolicySample, StochasticPolicy
from rein.algorithms.off_policy.sequences import merge_steps, put_steps, select_steps
from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo, TimeStep
from rein.distributions import calc_default_target_entropy
from rein.envs import Environment
from rein.framework.evaluation import default_epsilon_greedy
from rein.framework.minibatch import time_major
from rein.framework.rl_algorithm import RLAlgorithm
from rein.framework.trainer_config import TrainerConfig
from rein.nest import Nest
from rein.networks import Network
from rein.runtime.schedules import Scheduler
from rein.specs import TensorSpec
from rein.statistics import TargetUpdater


class SarsaState(NamedTuple):
    """Recurrent states, and the exploration noise."""

    prev_observation: Nest = ()
    prev_step_type: Nest = ()
    actor: Nest = ()
    critics: Nest = ()
    target_critics: Nest = ()
    noise: Nest = ()


class SarsaInfo(NamedTuple):
    """What the losses need of a step; an off-policy `rollout_step` fills `action` only."""

    reward: Nest = ()
    step_type: Nest = ()
    discount: Nest = ()
    action_distribution: Nest = ()
    actor_loss: Nest = ()
    critics: Nest = ()
    target_critics: Nest = ()
    neg_entropy: Nest = ()
    action: Nest = ()


class SarsaLossInfo(NamedTuple):
    """Losses by part."""

    actor: Nest = ()
    critic: Nest = ()
    alpha: Nest = ()
    neg_entropy: Nest = ()


@configurable
class SarsaAlgorithm(RLAlgorithm):
    """SARSA, on-policy or off-policy, for continuous actions."""

    is_compilable = True

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        actor_network_ctor: Callable[..., Network],
        critic_network_ctor: Callable[..., Network],
        reward_spec: TensorSpec = TensorSpec(()),
        num_critic_replicas: int = 2,
        env: Environment | None = None,
        config: TrainerConfig | None = None,
        critic_loss_cls: Callable[..., Any] = OneStepTDLoss,
        target_entropy: float | Callable[[Nest], float] | None = None,
        epsilon_greedy: float | None = None,
        use_entropy_reward: bool = False,
        calculate_priority: bool = False,
        initial_alpha: float | None = 1.0,
        ou_stddev: float | Scheduler = 0.2,
        ou_damping: float | Scheduler = 0.15,
        actor_optimizer: Any | None = None,
        critic_optimizer: Any | None = None,
        alpha_optimizer: Any | None = None,
        target_update_tau: float | Scheduler = 0.05,
        target_update_period: int = 10,
        use_smoothed_actor: bool = False,
        dqda_clipping: float = 0.0,
        on_policy: bool = False,
        checkpoint: str | None = None,
        debug_summaries: bool = False,
        name: str = "SarsaAlgorithm",
        one_transition: bool = False,
    ) -> None:
        """Makes the algorithm.

        Args:
            observation_spec: specs of the observation.
            action_spec: nest of bounded continuous specs.
            actor_network_ctor: called as `ctor(input_tensor_spec=, action_spec=)`; gives actions or distributions.
            critic_network_ctor: called as `ctor(input_tensor_spec=(observation_spec, action_spec))`; gives values.
            reward_spec: a scalar, or a vector for several rewards.
            num_critic_replicas: critics; the lowest counts.
            env: batched environment; for the root algorithm only.
            config: settings of the run; for the root algorithm only.
            critic_loss_cls: called as `cls(debug_summaries=)`.
            target_entropy: entropy of the policy to aim at, in nats, or a function of the action spec; None is the
                default for the spec. For a stochastic actor.
            epsilon_greedy: chance of exploring in evaluation; None takes it from the settings.
            use_entropy_reward: add alpha times the entropy to the reward. For a stochastic actor.
            calculate_priority: give priorities for prioritized replay.
            initial_alpha: temperature at the start; None leaves entropy out. For a stochastic actor.
            ou_stddev: standard deviation of each increment of the exploration noise, in units of the action. For a
                deterministic actor.
            ou_damping: share of the exploration noise that is lost at each step. For a deterministic actor.
            actor_optimizer: of the actor; None leaves it to the parent.
            critic_optimizer: of the critics; None leaves them to the parent.
            alpha_optimizer: of the temperature; None leaves it to the parent.
            target_update_tau: how far targets move at each update of theirs.
            target_update_period: gradient updates from one update of the targets to the next.
            use_smoothed_actor: act by a slow copy of the actor; off-policy only.
            dqda_clipping: largest absolute value of each element of dQ/da; 0 does not clip.
            on_policy: learn from each rollout once instead of from replay.
            checkpoint: ``"prefix@path"`` to load the parameters from.
            debug_summaries: write more summaries.
            name: name in summaries.
            one_transition: learn from the first step of sequences of two only; off-policy.
        """
        if on_policy and (use_smoothed_actor or one_transition):
            raise ValueError(f"{name}: use_smoothed_actor and one_transition need on_policy=False")
        if initial_alpha is not None and initial_alpha <= 0:
            raise ValueError(f"{name}: initial_alpha is {initial_alpha}: give a positive temperature, or None")
        actions = ContinuousActions(action_spec, name)
        actor = actor_network_ctor(input_tensor_spec=observation_spec, action_spec=action_spec)
        critics = Critics(
            critic_network_ctor(input_tensor_spec=(observation_spec, action_spec)), num_critic_replicas, reward_spec
        )
        policy: DeterministicPolicy | StochasticPolicy = StochasticPolicy()
        if not actor.is_distribution_output:
            policy = DeterministicPolicy(actions, OrnsteinUhlenbeckNoise(ou_stddev, ou_damping))
        state_spec = SarsaState(actor=actor.state_spec, critics=critics.state_spec, target_critics=critics.state_spec)
        super().__init__(
            observation_spec=observation_spec,
            action_spec=action_spec,
            train_state_spec=state_spec,
            rollout_state_spec=state_spec._replace(noise=policy.noise_spec),
            predict_state_spec=SarsaState(actor=actor.state_spec, noise=policy.noise_spec),
            reward_spec=reward_spec,
            is_on_policy=on_policy,
            env=env,
            config=config,
            checkpoint=checkpoint,
            debug_summaries=debug_summaries,
            name=name,
        )
        check_one_transition(one_transition, config, state_spec, name)
        self._one_transition = one_transition
        self._actions, self._policy = actions, policy
        self._log_alpha: nn.Parameter | None = None
        if policy.has_entropy and initial_alpha is not None:
            self._log_alpha = nn.Parameter(torch.tensor(float(initial_alpha)).log())
            entropy = calc_default_target_entropy if target_entropy is None else target_entropy
            self._target_entropy = float(entropy(action_spec) if callable(entropy) else entropy)
        elif use_entropy_reward:
            raise ValueError(f"{name}: use_entropy_reward needs an actor that gives distributions, and initial_alpha")
        self._use_entropy_reward = use_entropy_reward
        self._make_networks(actor, critics, use_smoothed_actor, target_update_tau, target_update_period)
        self._epsilon_greedy = default_epsilon_greedy(epsilon_greedy, config)
        self._critic_loss = critic_loss_cls(debug_summaries=debug_summaries)
        self._calculate_priority = calculate_priority
        self._dqda_clipping = dqda_clipping
        for optimizer, part in (
            (actor_optimizer, actor),
            (critic_optimizer, critics),
            (alpha_optimizer, self._log_alpha),
        ):
            if optimizer is not None and part is not None:
                self.add_optimizer(optimizer, [part])

    def _make_networks(
        self, actor: Network, critics: Critics, smooth: bool, tau: float | Scheduler, period: int
    ) -> None:
        self._actor_network, self._critic_networks = actor, critics
        self._target_critic_networks = critics.copy()
        self._smoothed_actor_network: Network | None = actor.copy() if smooth else None
        followed: list[nn.Module] = [critics]
        followers: list[nn.Module] = [self._target_critic_networks]
        if self._smoothed_actor_network is not None:
            followed, followers = [*followed, actor], [*followers, self._smoothed_actor_network]
        self._update_targets = TargetUpdater(followed, followers, tau=tau, period=period)

    def _trainable_attributes_to_ignore(self) -> list[str]:
        return ["_target_critic_networks", "_smoothed_actor_network"]

    def convert_train_state_to_predict_state(self, state: SarsaState) -> SarsaState:
        """The state of the actor; noise starts anew."""
        return SarsaState(actor=state.actor)

    # Acting.

    @property
    def _acting_network(self) -> Network:
        return self._smoothed_actor_network or self._actor_network

    def predict_step(self, inputs: TimeStep, state: SarsaState) -> AlgStep:
        """The greedy action, or with chance `epsilon_greedy` an exploring one."""
        output, actor_state = self._acting_network(inputs.observation, state.actor)
        action, noise = self._policy.greedy(output, state.noise, self._epsilon_greedy)
        return AlgStep(output=action, state=SarsaState(actor=actor_state, noise=noise))

    def rollout_step(self, inputs: TimeStep, state: SarsaState) -> AlgStep:
        """An exploring action; on-policy also what the losses need of it."""
        if self.on_policy:
            return self._learn_while_acting(inputs, state)
        output, actor_state = self._acting_network(inputs.observation, state.actor)
        action, noise = self._policy.explore(output, None, state.noise)
        new_state = state._replace(actor=actor_state, noise=noise)
        if self.need_full_rollout_state():
            pair = (inputs.observation, action)
            new_state = new_state._replace(
                critics=self._critic_networks(pair, state.critics)[1],
                target_critics=self._target_critic_networks(pair, state.target_critics)[1],
            )
        return AlgStep(output=action, state=new_state, info=SarsaInfo(action=action))

    # Learning.

    def _learn_while_acting(self, inputs: TimeStep, state: SarsaState) -> AlgStep:
        """Acts, and evaluates the critics and their targets at the action that is taken."""
        output, actor_state = self._actor_network(inputs.observation, state.actor)
        sample = self._policy.sample(output)
        action, noise = self._policy.explore(output, sample, state.noise)
        values, critics_state = self._critic_networks((inputs.observation, action), state.critics)
        target, target_state = self._target_values(inputs.observation, action, state.target_critics)
        info = SarsaInfo(
            reward=inputs.reward,
            step_type=inputs.step_type,
            discount=inputs.discount,
            action_distribution=output if self._policy.has_entropy else (),
            actor_loss=self._actor_loss(inputs.observation, sample, state.critics),
            critics=values,
            target_critics=target,
            neg_entropy=sample.log_pi,
        )
        state = SarsaState(actor=actor_state, critics=critics_state, target_critics=target_state, noise=noise)
        return AlgStep(output=action, state=state, info=info)

    def train_step(self, inputs: TimeStep, state: SarsaState, rollout_info: SarsaInfo) -> AlgStep:
        """Values of the stored action and of the current policy's, and the actor's loss; of steps [B, ...]."""
        output, actor_state = self._actor_network(inputs.observation, state.actor)
        sample = self._policy.sample(output)
        values, critics_state = self._critic_networks((inputs.observation, rollout_info.action), state.critics)
        target, target_state = self._target_values(inputs.observation, sample.action, state.target_critics)
        info = SarsaInfo(
            reward=inputs.reward,
            step_type=inputs.step_type,
            discount=inputs.discount,
            action_distribution=output if self._policy.has_entropy else (),
            actor_loss=self._actor_loss(inputs.observation, sample, state.critics),
            critics=values,
            target_critics=target,
            neg_entropy=sample.log_pi,
        )
        state = SarsaState(actor=actor_state, critics=critics_state, target_critics=target_state)
        return AlgStep(output=sample.action, state=state, info=info)

    def train_sequences(self, inputs: TimeStep, state: Nest, rollout_info: SarsaInfo) -> SarsaInfo:
        """Like `train_step` on all steps of [B, T, ...], but without the values that no loss uses."""
        length = inputs.step_type.shape[1]
        acting = policy_steps(self._one_transition, length, self._name)
        before_last, after_first = range(length - 1), range(1, length)
        observation = merge_steps(inputs.observation, acting)
        sample = self._policy.sample(self._actor_network(observation)[0])
        neg_entropy = put_steps(sample.log_pi, acting, length)
        values, _ = self._critic_networks(merge_steps((inputs.observation, rollout_info.action), before_last))
        next_observation = merge_steps(inputs.observation, after_first)
        if self._one_transition:
            with torch.no_grad():
                next_sample = self._policy.sample(self._actor_network(next_observation)[0])
            neg_entropy = nest.map_structure(
                lambda a, b: a + b, neg_entropy, put_steps(next_sample.log_pi, after_first, length)
            )
        else:
            next_sample = PolicySample(select_steps(sample.action, acting, after_first), ())
        target, _ = self._target_values(next_observation, next_sample.action, ())
        reward, step_type, discount = time_major((inputs.reward, inputs.step_type, inputs.discount))
        return SarsaInfo(
            reward=reward,
            step_type=step_type,
            discount=discount,
            actor_loss=put_steps(self._actor_loss(observation, sample, ()), acting, length),
            critics=put_steps(values, before_last, length),
            target_critics=put_steps(target, after_first, length),
            neg_entropy=neg_entropy,
        )

    def _actor_loss(self, observation: Nest, sample: PolicySample, state: Nest) -> Tensor:
        """A loss [B] whose gradient is that of alpha log pi(a | s) - min_i Q_i(s, a)."""
        values, _ = self._critic_networks((observation, sample.action), state)
        value = weighted_sum(pessimistic(values, self._reward_weights), self._reward_weights)
        loss = action_gradient_loss(value, sample.action, self._dqda_clipping)
        return loss if self._log_alpha is None else loss + self._log_alpha.detach().exp() * sample.log_pi

    @torch.no_grad()
    def _target_values(self, observation: Nest, action: Nest, state: Nest) -> tuple[Tensor, Nest]:
        """min_i Q'_i(s, a), [B] or [B, D], and the new recurrent state."""
        values, state = self._target_critic_networks((observation, action), state)
        return pessimistic(values, self._reward_weights), state

    def calc_loss(self, info: SarsaInfo) -> LossInfo:
        """The losses of actor, critics and temperature, [T, B]."""
        critic_loss = self._td_loss(info)
        loss = info.actor_loss + critic_loss
        parts = SarsaLossInfo(actor=info.actor_loss, critic=critic_loss, neg_entropy=info.neg_entropy)
        if self._log_alpha is not None:
            parts = parts._replace(alpha=self._log_alpha * (-info.neg_entropy - self._target_entropy).detach())
            loss = loss + parts.alpha
        priority = sequence_priority(critic_loss, info.step_type) if self._calculate_priority else ()
        loss_info = LossInfo(loss=loss, priority=priority, extra=parts)
        return of_first_steps(loss_info, info.step_type) if self._one_transition else loss_info

    def _td_loss(self, info: SarsaInfo) -> Tensor:
        """The losses of all critics, [T, B], with the entropy as part of the reward if so chosen."""
        if self._use_entropy_reward and self._log_alpha is not None:
            # Entropy of step t is earned with its discount, so that a terminal step earns none.
            bonus = -self._log_alpha.detach().exp() * info.neg_entropy.detach() * info.discount
            bonus = nest.expand_dims_as(bonus, info.reward) * self._critic_loss.gamma
            info = info._replace(reward=info.reward + bonus)
        return replicas_td_loss(self._critic_loss, info, info.critics, info.target_critics)

    def after_update(self, root_inputs: Nest, info: SarsaInfo) -> None:
        """Moves the targets."""
        self._update_targets()
