"""SARSA for continuous actions, with a policy that climbs the critic.

Rummery & Niranjan (1994), "On-line Q-learning using connectionist systems"; Sutton & Barto (2018), section 6.4. With a' the
action that the policy takes at s', Q' the slow copy of the critics, and alpha a temperature:

    critics: y = r + gamma min_i Q'_i(s', a'),  minimise sum_i (y - Q_i(s, a))^2
    actor:   maximise min_i Q_i(s, a(s)) - alpha log pi(a(s) | s); its gradient goes through dQ/da
    alpha:   minimise log_alpha (-log pi(a | s) - target entropy), without gradient to pi

On-policy, a' is the very action that was taken next, and the update is made from the rollout itself. Off-policy, transitions
come from replay, where the next action is an old one: a' is what the current policy would do. A deterministic actor explores
by an Ornstein-Uhlenbeck process and has no temperature (as DDPG); a stochastic one samples (as SAC).

Sequences of one step (`mini_batch_length=1`, off-policy) hold no transition by themselves. For them the state carries the
step before, `SarsaState.prev_observation` and `prev_step_type`, into replay: critics are evaluated at that observation and
`prev_action`, and what they learn is booked at the step that it led to. The state is stored even without
`TrainerConfig.use_rollout_state`. In longer sequences every step evaluates Q at its own observation and action, and the two
stay empty.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from rein import nest
from rein.algorithms.losses import OneStepTDLoss
from rein.algorithms.losses.critics import (
    Critics,
    action_gradient_loss,
    keep_target_statistics,
    pessimistic,
    replicas_td_loss,
    sequence_priority,
)
from rein.algorithms.off_policy.continuous_actions import ContinuousActions, OrnsteinUhlenbeckNoise
from rein.algorithms.off_policy.sarsa_policies import DeterministicPolicy, PolicySample, StochasticPolicy
from rein.algorithms.off_policy.sarsa_structures import SarsaInfo, SarsaLossInfo, SarsaState, with_steps_before
from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo, StepType, TimeStep
from rein.distributions import calc_default_target_entropy
from rein.envs import Environment
from rein.framework.acting.epsilon_greedy import default_epsilon_greedy
from rein.framework.rl_algorithm import RLAlgorithm
from rein.framework.steps import LearnsFromSteps, Steps, check_one_transition, of_first_steps
from rein.framework.trainer_config import TrainerConfig
from rein.nest import Nest
from rein.networks import Network
from rein.networks.state import reset_state
from rein.runtime.schedules import Scheduler
from rein.specs import TensorSpec
from rein.statistics import TargetUpdater

__all__ = ["SarsaAlgorithm", "SarsaInfo", "SarsaLossInfo", "SarsaState"]


@configurable
class SarsaAlgorithm(LearnsFromSteps, RLAlgorithm):
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
            critic_network_ctor: called as `ctor(input_tensor_spec=(observation_spec, action_spec))`; gives a value, or
                one for each dimension of a vector reward.
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
        check_one_transition(one_transition, config, state_spec, name)
        has_single_steps = not on_policy and _sequence_length(config) == 1
        if has_single_steps:
            step_type = TensorSpec((), torch.int32)
            state_spec = state_spec._replace(prev_observation=observation_spec, prev_step_type=step_type)
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
        self._has_single_steps = has_single_steps
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

    def need_full_rollout_state(self) -> bool:
        """True for sequences of one step, which need the step before."""
        return self._has_single_steps or super().need_full_rollout_state()

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
            _, critics_state = self._taken_values(_SINGLE, inputs, action, state)
            new_state = new_state._replace(
                critics=critics_state,
                target_critics=self._target_critic_networks((inputs.observation, action), state.target_critics)[1],
            )
        return AlgStep(output=action, state=self._carrying(inputs, new_state), info=SarsaInfo(action=action))

    def _carrying(self, inputs: TimeStep, state: SarsaState) -> SarsaState:
        """`state` with this step as the one before the next, if that is needed."""
        if not self._has_single_steps:
            return state
        return state._replace(prev_observation=inputs.observation, prev_step_type=inputs.step_type)

    # Learning.

    def _learn_while_acting(self, inputs: TimeStep, state: SarsaState) -> AlgStep:
        """Acts, and evaluates the critics and their targets at the action that is taken."""
        output, actor_state = self._actor_network(inputs.observation, state.actor)
        sample = self._policy.sample(output)
        action, noise = self._policy.explore(output, sample, state.noise)
        info, state = self._evaluate(_SINGLE, inputs, state, output, sample, action, (action, sample.log_pi))
        return AlgStep(output=action, state=state._replace(actor=actor_state, noise=noise), info=info)

    def learn(self, steps: Steps, inputs: TimeStep, state: SarsaState, rollout_info: SarsaInfo) -> AlgStep:
        """Values of the stored action and of the current policy's, and the actor's loss."""
        output, actor_state = self._actor_network(steps.take(inputs.observation, steps.policy), state.actor)
        sample = self._policy.sample(output)
        following = self._following(steps, inputs.observation, sample)
        info, new_state = self._evaluate(steps, inputs, state, output, sample, rollout_info.action, following)
        new_state = self._carrying(inputs, new_state._replace(actor=actor_state))
        return AlgStep(output=sample.action, state=new_state, info=info)

    def _following(self, steps: Steps, observation: Nest, sample: PolicySample) -> tuple[Nest, Any]:
        """The policy's actions after the first step, sampled anew if it does not learn there; and log pi of all steps."""
        log_pi = steps.put(sample.log_pi, steps.policy)
        if steps.cover(steps.policy, steps.after_first):
            return steps.select(sample.action, steps.policy, steps.after_first), log_pi
        with torch.no_grad():
            output, _ = self._actor_network(steps.take(observation, steps.after_first))
            following = self._policy.sample(output)
        following_log_pi = steps.put(following.log_pi, steps.after_first)
        return following.action, nest.map_structure(lambda a, b: a + b, log_pi, following_log_pi)

    def _evaluate(
        self,
        steps: Steps,
        inputs: TimeStep,
        state: SarsaState,
        output: Nest,
        sample: PolicySample,
        taken: Nest,
        following: tuple[Nest, Any],
    ) -> tuple[SarsaInfo, SarsaState]:
        """What the losses need, and the states of the critics.

        Args:
            steps: at which steps each part is needed.
            inputs: all steps.
            state: recurrent state before them.
            output: of the actor, at the steps that it learns from.
            sample: the policy's actions there.
            taken: the actions that were taken, at all steps.
            following: the actions to bootstrap from, after the first step; and log pi at all steps.
        """
        values, critics_state = self._taken_values(steps, inputs, taken, state)
        action, log_pi = following
        next_observation = steps.take(inputs.observation, steps.after_first)
        target, target_state = self._target_values(next_observation, action, state.target_critics)
        # Critics that were evaluated at the step before have their state before this one only now.
        before = critics_state if self._has_single_steps else state.critics
        actor_loss = self._actor_loss(steps.take(inputs.observation, steps.policy), sample, before)
        reward, step_type, discount = steps.turn((inputs.reward, inputs.step_type, inputs.discount))
        info = SarsaInfo(
            reward=reward,
            step_type=step_type,
            discount=discount,
            action_distribution=steps.put(output, steps.policy) if self._policy.has_entropy else (),
            actor_loss=steps.put(actor_loss, steps.policy),
            critics=steps.put(values, steps.before_last),
            target_critics=steps.put(target, steps.after_first),
            neg_entropy=log_pi,
        )
        return info, SarsaState(critics=critics_state, target_critics=target_state)

    def _taken_values(self, steps: Steps, inputs: TimeStep, action: Nest, state: SarsaState) -> tuple[Tensor, Nest]:
        """Q_i(s, a) of actions that were taken, [B, R, ...]: at these steps, or at the one before if it is carried along."""
        if not self._has_single_steps:
            pair = steps.take((inputs.observation, action), steps.before_last)
            return self._critic_networks(pair, state.critics)
        values, critics_state = self._critic_networks((state.prev_observation, inputs.prev_action), state.critics)
        # Nothing came before the first step of an episode.
        return values, reset_state(critics_state, inputs.is_first())

    def _actor_loss(self, observation: Nest, sample: PolicySample, state: Nest) -> Tensor:
        """A loss [B] whose gradient is that of alpha log pi(a | s) - min_i Q_i(s, a)."""
        values, _ = self._critic_networks((observation, sample.action), state)
        value = self._critic_networks.weighted(pessimistic(values, self._reward_weights), self._reward_weights)
        loss = action_gradient_loss(value, sample.action, self._dqda_clipping)
        return loss if self._log_alpha is None else loss + self._log_alpha.detach().exp() * sample.log_pi

    @torch.no_grad()
    def _target_values(self, observation: Nest, action: Nest, state: Nest) -> tuple[Tensor, Nest]:
        """min_i Q'_i(s, a), [B] or [B, D], and the new recurrent state."""
        values, state = self._target_critic_networks((observation, action), state)
        return pessimistic(values, self._reward_weights), state

    def calc_loss(self, info: SarsaInfo) -> LossInfo:
        """The losses of actor, critics and temperature, [T, B]; [B] for sequences of one step and with `one_transition`."""
        critic_loss = self._td_loss(info)
        policy_loss = info.actor_loss
        parts = SarsaLossInfo(actor=info.actor_loss, critic=critic_loss, neg_entropy=info.neg_entropy)
        if self._log_alpha is not None:
            parts = parts._replace(alpha=self._log_alpha * (-info.neg_entropy - self._target_entropy).detach())
            policy_loss = policy_loss + parts.alpha
        priority: Nest = ()
        if self._has_single_steps:
            # The framework masks LAST steps, but they are where the last transition of an episode is booked.
            acts = info.step_type[0] != StepType.LAST
            parts = nest.map_structure(lambda row: row[0] * acts, parts)._replace(critic=critic_loss[0])
            priority = critic_loss[0].detach().sqrt() if self._calculate_priority else ()
            return LossInfo(loss=policy_loss[0] * acts + critic_loss[0], priority=priority, extra=parts)
        if self._calculate_priority:
            priority = sequence_priority(critic_loss, info.step_type)
        loss_info = LossInfo(loss=policy_loss + critic_loss, priority=priority, extra=parts)
        return of_first_steps(loss_info, info.step_type) if self._one_transition else loss_info

    def _td_loss(self, info: SarsaInfo) -> Tensor:
        """The losses of all critics, [T, B]."""
        info, target = self._targets(info)
        loss = replicas_td_loss(self._critic_loss, info, info.critics, target)
        if not self._has_single_steps:
            return loss
        # The second of two rows is the step itself; what it holds is about the first, unless an episode begins there.
        return loss[:1] * (info.step_type[1:] != StepType.FIRST)

    def _targets(self, info: SarsaInfo) -> tuple[SarsaInfo, Tensor]:
        """What the critic's loss gets: transitions, with the entropy in their reward if so chosen, and values."""
        if self._has_single_steps:
            info = with_steps_before(info)
        if self._use_entropy_reward and self._log_alpha is not None:
            # Entropy of step t is earned with its discount, so that a terminal step earns none.
            bonus = -self._log_alpha.detach().exp() * info.neg_entropy.detach() * info.discount
            bonus = nest.expand_dims_as(bonus, info.reward) * self._critic_loss.gamma
            info = info._replace(reward=info.reward + bonus)
        return info, info.target_critics

    def after_update(self, root_inputs: Nest, info: SarsaInfo) -> None:
        """Moves the targets."""
        keep_target_statistics([self._critic_loss], info, self._targets)
        self._update_targets()


def _sequence_length(config: TrainerConfig | None) -> int | None:
    """Steps in a sequence to learn from, if the settings tell."""
    if config is None:
        return None
    return config.mini_batch_length or int(config.unroll_length)


_SINGLE = Steps()
