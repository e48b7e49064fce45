"""Implicit Q-learning (Kostrikov et al. 2022, arXiv:2110.06169).

Values are learnt from the actions in the data only: no other action is ever asked about, so that nothing can be
overestimated for want of data. With a the recorded action, Q_i the critics, Q'_i their slow copies and
q = min_i Q'_i(s, a), the losses of a step are

    value    L_V  = w (q - V(s))^2,  w = expectile if q > V(s) else 1 - expectile            (eq. 5)
    critics  L_Q  = sum_i (Q_i(s_t, a_t) - (r_{t+1} + gamma d_{t+1} V(s_{t+1})))^2            (eq. 6)
    policy   L_pi = -min(exp((q - V(s)) / temperature), max_exp_advantage) log pi(a|s)       (eq. 7)

Towards expectile 1, V is the value of the best action that the data holds. Losses are added without weights; targets,
V in L_Q and the weight in L_pi have no gradient. L_V and L_pi stand at every step of a sequence, L_Q at all but the
last, and none at LAST steps; with `one_transition` all three stand at the first of two steps only.

For a vector reward V has as many dimensions, each with losses of its own that are averaged; where the weight of a
dimension is negative, the highest replica and the lower expectile are taken. The policy compares weighted sums.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rein import nest
from rein.algorithms.losses import OneStepTDLoss
from rein.algorithms.losses.critics import pessimistic, weighted_sum
from rein.algorithms.offline.policies import check_continuous, check_length, require_two_steps
from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo, TimeStep
from rein.distributions import compute_log_probability, epsilon_greedy_sample, sample_action_distribution
from rein.envs import Environment
from rein.framework import OffPolicyAlgorithm, TrainerConfig
from rein.framework.acting.epsilon_greedy import default_epsilon_greedy
from rein.framework.steps import LearnsFromSteps, Steps, check_one_transition, of_first_steps
from rein.nest import Nest
from rein.networks import ActorDistributionNetwork, CriticNetwork, Network, ValueNetwork
from rein.ops import exp_advantage_weight, expectile_loss, sequence_priority
from rein.specs import TensorSpec
from rein.statistics import TargetUpdater


class IqlActionState(NamedTuple):
    """Recurrent state of acting."""

    actor_network: Nest = ()
    critic: Nest = ()


class IqlCriticState(NamedTuple):
    """Recurrent states of the critics."""

    critics: Nest = ()
    target_critics: Nest = ()


class IqlState(NamedTuple):
    """All recurrent states."""

    action: IqlActionState = IqlActionState()
    critic: IqlCriticState = IqlCriticState()
    value: Nest = ()


class IqlCriticInfo(NamedTuple):
    """Values of the recorded action and of the state."""

    critics: Nest = ()
    """[B, n] or [B, n, D], Q_i(s, a)."""
    target_value: Nest = ()
    """[B] or [B, D], V(s) without gradient, to bootstrap from."""
    value: Nest = ()
    """[B] the loss of V."""


class IqlActorInfo(NamedTuple):
    """Parts of the loss of the policy."""

    actor_loss: Nest = ()


class IqlInfo(NamedTuple):
    """What the losses need of a step; `rollout_step` fills `action` only."""

    reward: Nest = ()
    step_type: Nest = ()
    discount: Nest = ()
    action: Nest = ()
    action_distribution: Nest = ()
    actor: Nest = ()
    """`LossInfo` [B] of the policy."""
    critic: Nest = ()
    """`IqlCriticInfo`."""


class IqlLossInfo(NamedTuple):
    """Losses by part."""

    actor: Nest = ()
    critic: Nest = ()
    value: Nest = ()


@configurable
class IqlAlgorithm(LearnsFromSteps, OffPolicyAlgorithm):
    """Implicit Q-learning, for continuous actions."""

    is_compilable = True

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        reward_spec: TensorSpec = TensorSpec(()),
        actor_network_cls: Callable[..., Network] = ActorDistributionNetwork,
        critic_network_cls: Callable[..., Network] = CriticNetwork,
        v_network_cls: Callable[..., Network] = ValueNetwork,
        reward_weights: Sequence[float] | None = None,
        epsilon_greedy: float | None = None,
        calculate_priority: bool = False,
        num_critic_replicas: int = 2,
        env: Environment | None = None,
        config: TrainerConfig | None = None,
        critic_loss_ctor: Callable[..., Any] | None = None,
        target_update_tau: float = 0.05,
        target_update_period: int = 1,
        temperature: float = 1.0,
        actor_optimizer: Any | None = None,
        critic_optimizer: Any | None = None,
        value_optimizer: Any | None = None,
        expectile: float = 0.8,
        max_exp_advantage: float = 100,
        checkpoint: str | None = None,
        debug_summaries: bool = False,
        name: str = "IqlAlgorithm",
        one_transition: bool = False,
    ) -> None:
        """Makes the algorithm.

        Args:
            observation_spec: specs of the observation.
            action_spec: nest of specs of continuous actions.
            reward_spec: a scalar, or a vector for several rewards.
            actor_network_cls: called as `cls(input_tensor_spec=, action_spec=)`; gives distributions. Those of
                `NormalProjectionNetwork` with its defaults suit: the mean is bounded, samples are not squashed, so that
                recorded actions at the bounds have a likelihood like others.
            critic_network_cls: called as `cls(input_tensor_spec=(observation_spec, action_spec))`; gives values.
            v_network_cls: called as `cls(input_tensor_spec=)`, and for a vector reward with `output_tensor_spec=` too.
            reward_weights: weights of a vector reward in what the policy compares; None sums.
            epsilon_greedy: chance of sampling in evaluation; None takes it from the settings.
            calculate_priority: give sequences priorities, for prioritized replay.
            num_critic_replicas: number n of critics.
            env: batched environment; for the root algorithm only.
            config: settings of the run; for the root algorithm only.
            critic_loss_ctor: called as `ctor(name=, debug_summaries=)` for each critic; None is `OneStepTDLoss`.
            target_update_tau: how far target critics move at each update of them.
            target_update_period: gradient updates between updates of the target critics.
            temperature: high values clone all actions alike, low ones only the best; 1 / beta in the paper.
            actor_optimizer: for the actor.
            critic_optimizer: for the critics.
            value_optimizer: for the value network.
            expectile: in (0, 1); 0.5 values the policy that made the data, towards 1 the best actions in it.
            max_exp_advantage: limit of the weights in the policy's loss.
            checkpoint: ``"prefix@path"`` to load the parameters from.
            debug_summaries: write more summaries.
            name: name in summaries.
            one_transition: learn from the first step of sequences of two only, as the paper does: half the cost.
        """
        check_continuous(action_spec, name)
        check_length(config, name)
        _check_settings(name, expectile, temperature, max_exp_advantage, num_critic_replicas, reward_spec)
        actor = actor_network_cls(input_tensor_spec=observation_spec, action_spec=action_spec)
        if not actor.is_distribution_output:
            raise ValueError(f"{name} needs an actor network that gives distributions, but {actor.name} gives actions")
        critic = critic_network_cls(input_tensor_spec=(observation_spec, action_spec))
        critics = critic.make_parallel(num_critic_replicas * reward_spec.numel)
        output = {"output_tensor_spec": reward_spec} if reward_spec.ndim > 0 else {}
        value = v_network_cls(input_tensor_spec=observation_spec, **output)
        super().__init__(
            observation_spec=observation_spec,
            action_spec=action_spec,
            reward_spec=reward_spec,
            reward_weights=reward_weights,
            train_state_spec=IqlState(
                action=IqlActionState(actor.state_spec),
                critic=IqlCriticState(critics.state_spec, critics.state_spec),
                value=value.state_spec,
            ),
            predict_state_spec=IqlState(action=IqlActionState(actor.state_spec)),
            env=env,
            config=config,
            checkpoint=checkpoint,
            debug_summaries=debug_summaries,
            name=name,
        )
        check_one_transition(one_transition, config, self._train_state_spec, name)
        self._one_transition = one_transition
        self._actor_network, self._critic_networks, self._v_network = actor, critics, value
        self._target_critic_networks = critics.copy()
        self._target_updater = TargetUpdater(
            critics, self._target_critic_networks, target_update_tau, target_update_period
        )
        self._num_critic_replicas = num_critic_replicas
        ctor = OneStepTDLoss if critic_loss_ctor is None else critic_loss_ctor
        self._critic_losses = nn.ModuleList(
            [ctor(name=f"critic_loss{i}", debug_summaries=debug_summaries) for i in range(num_critic_replicas)]
        )
        self._epsilon_greedy = default_epsilon_greedy(epsilon_greedy, config)
        self._calculate_priority = calculate_priority
        self._temperature = temperature
        self._expectile = expectile
        self._max_exp_advantage = max_exp_advantage
        parts = ((actor_optimizer, actor), (critic_optimizer, critics), (value_optimizer, value))
        for optimizer, network in parts:
            if optimizer is not None:
                self.add_optimizer(optimizer, [network])

    # Acting.

    def predict_step(self, inputs: TimeStep, state: IqlState) -> AlgStep:
        """The mode of the policy, or with chance `epsilon_greedy` a sample."""
        distribution, actor_state = self._actor_network(inputs.observation, state.action.actor_network)
        action = epsilon_greedy_sample(distribution, self._epsilon_greedy)
        new_state = IqlState(action=IqlActionState(actor_state))
        return AlgStep(output=action, state=new_state, info=IqlInfo(action_distribution=distribution))

    def rollout_step(self, inputs: TimeStep, state: IqlState) -> AlgStep:
        """A sample of the policy; with stored recurrent states, those that only learning needs are kept up too."""
        distribution, actor_state = self._actor_network(inputs.observation, state.action.actor_network)
        action = sample_action_distribution(distribution)
        new_state = state._replace(action=IqlActionState(actor_state))
        if self.need_full_rollout_state():
            pair = (inputs.observation, action)
            _, critics = self._critic_networks(pair, state.critic.critics)
            _, target_critics = self._target_critic_networks(pair, state.critic.target_critics)
            _, value = self._v_network(inputs.observation, state.value)
            new_state = new_state._replace(critic=IqlCriticState(critics, target_critics), value=value)
        return AlgStep(output=action, state=new_state, info=IqlInfo(action=action))

    def convert_train_state_to_predict_state(self, state: IqlState) -> IqlState:
        """The state of the actor."""
        return IqlState(action=state.action)

    # Learning.

    def learn(self, steps: Steps, inputs: TimeStep, state: IqlState, rollout_info: IqlInfo) -> AlgStep:
        """Values of the recorded actions, and the losses of V and of the policy."""
        pair = (inputs.observation, rollout_info.action)
        observation, action = steps.take(pair, steps.policy)
        distribution, actor_state = self._actor_network(observation, state.action.actor_network)
        value, value_state = self._v_network(observation, state.value)
        with torch.no_grad():
            target_critics, target_state = self._q(
                self._target_critic_networks, (observation, action), state.critic.target_critics
            )
            q = pessimistic(target_critics, self._weights())
        critics, critics_state = self._q(
            self._critic_networks, steps.take(pair, steps.before_last), state.critic.critics
        )
        actor = self._actor_loss(distribution, action, q - value)
        reward, step_type, discount = steps.turn((inputs.reward, inputs.step_type, inputs.discount))
        info = IqlInfo(
            reward=reward,
            step_type=step_type,
            discount=discount,
            action_distribution=steps.put(distribution, steps.policy),
            actor=steps.put(actor, steps.policy),
            critic=IqlCriticInfo(
                steps.put(critics, steps.before_last),
                self._next_values(steps, inputs.observation, value.detach()),
                steps.put(self._value_loss(q, value), steps.policy),
            ),
        )
        new_state = IqlState(IqlActionState(actor_state), IqlCriticState(critics_state, target_state), value_state)
        return AlgStep(output=action, state=new_state, info=info)

    def _next_values(self, steps: Steps, observation: Nest, value: Tensor) -> Tensor:
        """V(s) to bootstrap from, wherever there is a step before: `value` of the policy's steps, if they are there."""
        if steps.cover(steps.policy, steps.after_first):
            return steps.put(value, steps.policy)
        with torch.no_grad():
            following, _ = self._v_network(steps.take(observation, steps.after_first))
        return steps.put(following, steps.after_first)

    def _value_loss(self, q: Tensor, value: Tensor) -> Tensor:
        """Equation 5, [B]."""
        error, weights = q - value, self._weights()
        if weights is None:
            return expectile_loss(error, self._expectile)
        # What is better in a dimension of negative weight is what is lower.
        return expectile_loss(torch.where(weights < 0, -error, error), self._expectile).mean(-1)

    def _actor_loss(self, distribution: Nest, action: Nest, advantage: Tensor) -> LossInfo:
        """Equation 7, [B]."""
        if self._reward_spec.ndim > 0:
            advantage = weighted_sum(advantage, self._weights())
        weight = exp_advantage_weight(advantage, self._temperature, self._max_exp_advantage)
        loss = -weight * compute_log_probability(distribution, action)
        return LossInfo(loss=loss, extra=IqlActorInfo(actor_loss=loss))

    def calc_loss(self, info: IqlInfo) -> LossInfo:
        """The sum of the losses of policy, critics and V, [T, B]."""
        require_two_steps(info.step_type, self.name)
        critic = self._critic_loss(info)
        value = info.critic.value
        priority = sequence_priority(critic + value, info.step_type) if self._calculate_priority else ()
        loss = LossInfo(
            loss=info.actor.loss + critic + value,
            priority=priority,
            extra=IqlLossInfo(info.actor.extra, critic, value),
        )
        return of_first_steps(loss, info.step_type) if self._one_transition else loss

    def _critic_loss(self, info: IqlInfo) -> Tensor:
        """Equation 6 of all critics together, [T, B]; zero at the last step."""
        critics, target = info.critic.critics, info.critic.target_value
        losses = [loss(info, critics[:, :, i], target).loss for i, loss in enumerate(self._critic_losses)]
        return torch.stack(losses).sum(0)

    def after_update(self, root_inputs: Nest, info: Nest) -> None:
        """Moves the target critics; losses that normalize their targets take these in."""
        for loss in self._critic_losses:
            if getattr(loss, "needs_update_infos", False):
                if nest.is_empty(info):
                    raise ValueError(
                        "compiled updates do not tell their targets: leave out normalize_target, or compile"
                    )
                loss.take_targets(info, info.critic.target_value)  # type: ignore[operator]
        self._target_updater()

    def _q(self, networks: Network, inputs: Nest, state: Nest) -> tuple[Tensor, Nest]:
        """Values of all replicas, [B, n] or [B, n, D], and the new state."""
        q, state = networks(inputs, state)
        if self._reward_spec.ndim > 0:
            q = q.unflatten(1, (self._num_critic_replicas, self._reward_spec.numel))
        return q, state

    def _weights(self) -> Tensor | None:
        """Weights [D] of a vector reward; None for a scalar one."""
        if self._reward_spec.ndim > 0 and self._reward_weights is None:
            return torch.ones(self._reward_spec.numel)
        return self._reward_weights

    def _trainable_attributes_to_ignore(self) -> list[str]:
        return ["_target_critic_networks"]


def _check_settings(
    name: str,
    expectile: float,
    temperature: float,
    max_exp_advantage: float,
    num_critic_replicas: int,
    reward_spec: TensorSpec,
) -> None:
    if not 0.0 < expectile < 1.0:
        raise ValueError(f"{name}: expectile is {expectile}: it must lie between 0 and 1")
    for key, value in (("temperature", temperature), ("max_exp_advantage", max_exp_advantage)):
        if not value > 0.0:
            raise ValueError(f"{name}: {key} is {value}: it must be positive")
    if num_critic_replicas < 1:
        raise ValueError(f"{name}: num_critic_replicas is {num_critic_replicas}: it must be at least 1")
    if reward_spec.ndim > 1:
        raise ValueError(f"{name}: reward_spec is {reward_spec}: rewards are scalars or vectors")
