"""What DDPG and TD3 have in common: a deterministic actor that climbs critics, with targets of both.

With the policy mu, the critics Q_i and their slow copies mu' and Q'_i:

    critics: y = r + gamma min_i Q'_i(s', mu'(s')),  minimise sum_i (y - Q_i(s, a))^2
    actor:   maximise a value made of Q_i(s, mu(s)); its gradient is dQ/da dmu/dtheta
    explore: mu(s) with noise, within the bounds

Beyond the papers of both: vector rewards, with targets for each dimension and a weighted sum for the actor; any `TDLoss` over
longer sequences; recurrent networks; dQ/da may be clipped. The actor's loss is the squared error whose gradient is -dQ/da, so
that no gradient of the critics' parameters is computed for it. Images are encoded once for actor and critics, unless one of
them is told what to do with them; only the critics' loss trains the encoder (Yarats et al. 2021, arXiv:1910.01741).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

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
from rein.algorithms.off_policy.continuous_actions import ContinuousActions, replace_rows
from rein.algorithms.off_policy.quick_exploration import HostExplorer
from rein.data_structures import AlgStep, BatchInfo, LossInfo, TimeStep
from rein.envs import Environment
from rein.framework.acting.epsilon_greedy import default_epsilon_greedy
from rein.framework.acting.quick_rollout import QuickActor, acts_otherwise
from rein.framework.off_policy_algorithm import OffPolicyAlgorithm
from rein.framework.steps import LearnsFromSteps, Steps, check_one_transition, of_first_steps
from rein.framework.trainer_config import TrainerConfig
from rein.nest import Nest
from rein.networks import HostActor, Network
from rein.networks.spec_encoders import ImageEncoders, with_shared_encoders
from rein.runtime.schedules import Scheduler, as_scheduler
from rein.specs import BoundedTensorSpec, TensorSpec
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
    """Losses by part; `actor` is missing in updates that leave the actor alone."""

    actor: Nest = ()
    critic: Nest = ()


class DeterministicActorCritic(LearnsFromSteps, OffPolicyAlgorithm):
    """Base of algorithms with a deterministic actor, for continuous actions."""

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        reward_spec: TensorSpec,
        *,
        actor_network_ctor: Callable[..., Network],
        critic_network_ctor: Callable[..., Network],
        reward_weights: Sequence[float] | None,
        epsilon_greedy: float | None,
        calculate_priority: bool,
        env: Environment | None,
        config: TrainerConfig | None,
        critic_loss_ctor: Callable[..., Any] | None,
        num_critic_replicas: int,
        target_update_tau: float | Scheduler,
        target_update_period: int,
        rollout_random_action: float | Scheduler,
        dqda_clipping: float | None,
        actor_optimizer: Any | None,
        critic_optimizer: Any | None,
        checkpoint: str | None,
        debug_summaries: bool,
        name: str,
        one_transition: bool,
        is_noise_kept: bool,
    ) -> None:
        """Makes networks, targets and optimizers; the arguments are those of the algorithms.

        Args:
            observation_spec: specs of the observation.
            action_spec: nest of bounded continuous specs.
            reward_spec: a scalar, or a vector for several rewards.
            actor_network_ctor: called as `ctor(input_tensor_spec=, action_spec=)`; gives actions.
            critic_network_ctor: called as `ctor(input_tensor_spec=(observation_spec, action_spec))`; gives a value, or
                one for each dimension of a vector reward.
            reward_weights: weights of the dimensions of a vector reward in what the actor maximises; None is 1 each.
            epsilon_greedy: chance of adding noise in evaluation; None takes it from the settings.
            calculate_priority: give priorities for prioritized replay.
            env: batched environment; for the root algorithm only.
            config: settings of the run; for the root algorithm only.
            critic_loss_ctor: called as `ctor(debug_summaries=)`; None is `OneStepTDLoss`.
            num_critic_replicas: critics.
            target_update_tau: how far targets move at each update of theirs.
            target_update_period: gradient updates from one update of the targets to the next.
            rollout_random_action: chance of a uniformly random action in a rollout step.
            dqda_clipping: largest absolute value of each element of dQ/da; None or 0 does not clip.
            actor_optimizer: of the actor; None leaves it to the parent.
            critic_optimizer: of the critics; None leaves them to the parent.
            checkpoint: ``"prefix@path"`` to load the parameters from.
            debug_summaries: write more summaries.
            name: name in summaries.
            one_transition: learn from the first step of sequences of two only, at half the cost.
            is_noise_kept: whether the exploration noise of a step depends on that before it.
        """
        actions = ContinuousActions(action_spec, name)

        def make(spec: Nest) -> tuple[Network, Network]:
            actor = actor_network_ctor(input_tensor_spec=spec, action_spec=action_spec)
            return actor, critic_network_ctor(input_tensor_spec=(spec, action_spec))

        encoder, actor, critic = with_shared_encoders(observation_spec, make)
        critics = Critics(critic, num_critic_replicas, reward_spec)
        state_spec = DdpgState(
            actor=DdpgActorState(actor=actor.state_spec, critics=critics.state_spec),
            critics=DdpgCriticState(critics.state_spec, actor.state_spec, critics.state_spec),
        )
        noise_spec = actions.state_spec if is_noise_kept else ()
        super().__init__(
            observation_spec=observation_spec,
            action_spec=action_spec,
            train_state_spec=state_spec,
            rollout_state_spec=state_spec._replace(noise=noise_spec),
            predict_state_spec=DdpgState(actor=DdpgActorState(actor=actor.state_spec), noise=noise_spec),
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
        self._encoder: ImageEncoders | None = encoder
        self._target_encoder: ImageEncoders | None = None if encoder is None else encoder.copy()
        targets = (self._target_actor_network, self._target_critic_networks, self._target_encoder)
        self._update_targets = TargetUpdater(
            [one for one in (actor, critics, encoder) if one is not None],
            [one for one in targets if one is not None],
            tau=target_update_tau,
            period=target_update_period,
        )
        self._rollout_random_action = as_scheduler(rollout_random_action)
        self._epsilon_greedy = default_epsilon_greedy(epsilon_greedy, config)
        self._critic_loss = (critic_loss_ctor or OneStepTDLoss)(debug_summaries=debug_summaries)
        self._calculate_priority = calculate_priority
        self._dqda_clipping = dqda_clipping
        if actor_optimizer is not None:
            self.add_optimizer(actor_optimizer, [actor])
        if critic_optimizer is not None:
            self.add_optimizer(critic_optimizer, [one for one in (critics, encoder) if one is not None])

    def _trainable_attributes_to_ignore(self) -> list[str]:
        return ["_target_actor_network", "_target_critic_networks", "_target_encoder"]

    def convert_train_state_to_predict_state(self, state: DdpgState) -> DdpgState:
        """The state of the actor; noise starts anew."""
        return DdpgState(actor=state.actor._replace(critics=()))

    # Acting.

    def predict_step(self, inputs: TimeStep, state: DdpgState) -> AlgStep:
        """mu(s), or with chance `epsilon_greedy` with noise."""
        action, actor_state = self._actor_network(self._encode(inputs.observation), state.actor.actor)
        noise = state.noise
        if self._epsilon_greedy > 0.0:
            explored, noise = self._explored(action, noise)
            action = replace_rows(action, explored, self._epsilon_greedy)
        return AlgStep(output=action, state=DdpgState(actor=DdpgActorState(actor=actor_state), noise=noise))

    def rollout_step(self, time_step: TimeStep, state: DdpgState) -> AlgStep:
        """mu(s) with noise, or with chance `rollout_random_action` a uniformly random action."""
        action, actor_state = self._actor_network(self._encode(time_step.observation), state.actor.actor)
        action, noise = self._explored(action, state.noise)
        random_action = self._rollout_random_action()
        if random_action > 0.0:
            action = replace_rows(action, self._actions.uniform(time_step.step_type.shape[0]), random_action)
        new_state = state._replace(actor=state.actor._replace(actor=actor_state), noise=noise)
        if self.need_full_rollout_state():
            new_state = self._follow(time_step.observation, action, state, new_state)
        return AlgStep(output=action, state=new_state, info=DdpgInfo(action=action))

    def _explored(self, action: Nest, noise: Nest) -> tuple[Nest, Nest]:
        """The action [B, ...] with noise, within the bounds, and what the noise of the next step needs."""
        keep, drawn = self._noise_kept(), self._draw_noise(nest.get_nest_batch_size(action))
        if keep is None:
            return self._disturbed(action, drawn), noise
        if not nest.is_empty(noise):
            share = keep()
            drawn = nest.map_structure(lambda x, increment: x * share + increment, noise, drawn)
        return self._disturbed(action, drawn), drawn

    def _draw_noise(self, num_rows: int) -> Nest:
        """What is new in the noise of a step, for actions [num_rows, ...]."""
        raise NotImplementedError

    def _noise_kept(self) -> Callable[[], float] | None:
        """Gives the share of the noise of a step that the next one keeps; None if each has its own."""
        return None

    def _disturbed(self, action: Nest, noise: Nest) -> Nest:
        """The action [B, ...] with noise, within the bounds."""
        return self._actions.clip(nest.map_structure(lambda a, x: a + x, action, noise))

    def quick_actor(self) -> QuickActor | None:
        """The same on the host, for one action of a policy of plain layers."""
        spec = self._action_spec
        is_one = isinstance(spec, BoundedTensorSpec) and spec.dtype == torch.float32
        if not is_one or self._encoder is not None or acts_otherwise(type(self), _PICK_ACTIONS):
            return None
        actor = HostActor.of(self._actor_network)
        if actor is None:
            return None
        # Whoever changes the chance later changes it here.
        chance = lambda: self._rollout_random_action()  # noqa: E731
        return HostExplorer(actor, self._actions, self._draw_noise, chance, self._noise_kept())

    def rollout_infos(self, inputs: TimeStep, action: Nest, num_acted: int) -> DdpgInfo:
        """See `rollout_step`, for actions picked by `quick_actor`."""
        return DdpgInfo(action=action)

    def _follow(self, observation: Nest, action: Nest, state: DdpgState, new_state: DdpgState) -> DdpgState:
        """Lets the recurrent networks that only learning uses see a step of the rollout."""
        pair, seen = (self._encode(observation), action), self._encode_for_targets(observation)
        critics = DdpgCriticState(
            critics=self._critic_networks(pair, state.critics.critics)[1],
            target_actor=self._target_actor_network(seen, state.critics.target_actor)[1],
            target_critics=self._target_critic_networks((seen, action), state.critics.target_critics)[1],
        )
        actor = new_state.actor._replace(critics=self._critic_networks(pair, state.actor.critics)[1])
        return new_state._replace(actor=actor, critics=critics)

    def _encode(self, observation: Nest) -> Nest:
        """The observation [..., *shape] as actor and critics see it."""
        return observation if self._encoder is None else self._encoder(observation)[0]

    def _encode_for_targets(self, observation: Nest) -> Nest:
        """The observation [..., *shape] as the targets of both see it."""
        return observation if self._target_encoder is None else self._target_encoder(observation)[0]

    # Learning.

    def preprocess_experience(
        self, root_inputs: TimeStep, rollout_info: DdpgInfo, batch_info: BatchInfo
    ) -> tuple[TimeStep, DdpgInfo]:
        """Hands recorded returns, where replay has them, to the critic's loss."""
        if isinstance(batch_info, BatchInfo) and isinstance(batch_info.discounted_return, Tensor):
            rollout_info = rollout_info._replace(discounted_return=batch_info.discounted_return)
        return root_inputs, rollout_info

    def learn(self, steps: Steps, inputs: TimeStep, state: DdpgState, rollout_info: DdpgInfo) -> AlgStep:
        """The values of the stored and of the target action and, when its turn has come, the actor's loss."""
        observation, stored = steps.take((inputs.observation, rollout_info.action), steps.before_last)
        seen = self._encode(observation)
        values, critics_state = self._critic_networks((seen, stored), state.critics.critics)
        target, critic_state = self._target_step(steps.take(inputs.observation, steps.after_first), state.critics)
        reward, step_type, discount, discounted_return = steps.turn(
            (inputs.reward, inputs.step_type, inputs.discount, rollout_info.discounted_return)
        )
        info = DdpgInfo(
            reward=reward,
            step_type=step_type,
            discount=discount,
            critic=DdpgCriticInfo(steps.put(values, steps.before_last), steps.put(target, steps.after_first)),
            discounted_return=discounted_return,
        )
        action, actor_state = (), state.actor
        if self._updates_actor():
            action, loss, actor_state = self._actor_step(self._seen_by_actor(steps, inputs, seen), state.actor)
            info = info._replace(actor_loss=steps.put(loss, steps.policy))
        state = DdpgState(actor=actor_state, critics=critic_state._replace(critics=critics_state))
        return AlgStep(output=action, state=state, info=info)

    def _updates_actor(self) -> bool:
        """Whether the update that is being prepared moves the actor."""
        return True

    def _seen_by_actor(self, steps: Steps, inputs: TimeStep, seen: Nest) -> Nest:
        """The observations that the actor learns from, of which its loss does not reach the encoder.

        Args:
            steps: which steps are needed where.
            inputs: [B, T, ...].
            seen: by the critics, at the steps before the last.
        """
        if self._encoder is None:
            return steps.take(inputs.observation, steps.policy)
        if steps.cover(steps.before_last, steps.policy):
            return nest.map_structure(Tensor.detach, steps.select(seen, steps.before_last, steps.policy))
        with torch.no_grad():
            return self._encode(steps.take(inputs.observation, steps.policy))

    def _actor_step(self, observation: Nest, state: DdpgActorState) -> tuple[Nest, Tensor, DdpgActorState]:
        """mu(s), and a loss [B] whose gradient is -dQ/da dmu/dtheta."""
        action, actor_state = self._actor_network(observation, state.actor)
        values, critics_state = self._critic_networks((observation, action), state.critics)
        value = self._critic_networks.weighted(self._climbed(values), self._reward_weights)
        loss = self._actor_loss(value, action)
        return action, loss, DdpgActorState(actor=actor_state, critics=critics_state)

    def _climbed(self, values: Tensor) -> Tensor:
        """The value [B, ...] that the actor climbs, of those of all critics [B, R, ...]: the lowest."""
        return pessimistic(values, self._reward_weights)

    def _actor_loss(self, value: Tensor, action: Nest) -> Tensor:
        """The loss [B] of actions, from their value [B]."""
        return action_gradient_loss(value, action, self._dqda_clipping)

    @torch.no_grad()
    def _target_step(self, observation: Nest, state: DdpgCriticState) -> tuple[Tensor, DdpgCriticState]:
        """min_i Q'_i(s, mu'(s)), [B] or [B, D]."""
        observation = self._encode_for_targets(observation)
        action, actor_state = self._target_actor_network(observation, state.target_actor)
        action = self._smoothed(action)
        values, critics_state = self._target_critic_networks((observation, action), state.target_critics)
        target = pessimistic(values, self._reward_weights)
        return target, state._replace(target_actor=actor_state, target_critics=critics_state)

    def _smoothed(self, action: Nest) -> Nest:
        """The action that the target critics see, from that of the target actor."""
        return action

    def calc_loss(self, info: DdpgInfo) -> LossInfo:
        """The losses of critics and, when its turn has come, of the actor, [T, B]."""
        critic_loss = replicas_td_loss(self._critic_loss, info, info.critic.q_values, info.critic.target_q_values)
        priority = sequence_priority(critic_loss, info.step_type) if self._calculate_priority else ()
        loss = info.actor_loss + critic_loss if isinstance(info.actor_loss, Tensor) else critic_loss
        loss_info = LossInfo(loss=loss, priority=priority, extra=DdpgLossInfo(info.actor_loss, critic_loss))
        return of_first_steps(loss_info, info.step_type) if self._one_transition else loss_info

    def after_update(self, root_inputs: Nest, info: Nest) -> None:
        """Moves the targets, when their turn has come."""
        keep_target_statistics([self._critic_loss], info, lambda info: (info, info.critic.target_q_values))
        self._update_targets()


_PICK_ACTIONS = ("rollout_step", "_explored", "_disturbed", "_encode")
"""What `DeterministicActorCritic.quick_actor` does otherwise."""
