"""Deep Q-learning (Mnih et al. 2013, arXiv:1312.5602) and double Q-learning (van Hasselt et al. 2016, arXiv:1509.06461).

With Q_i the critics and Q'_i their slow copies:

    learn:   y = r + gamma min_i Q'_i(s', a*),  minimise sum_i (y - Q_i(s, a))^2
    DQN:     a* = argmax_a min_i Q'_i(s', a)                          (`target_net_target_action=True`)
    double:  a* = argmax_a min_i Q_i(s', a)                           (`target_net_target_action=False`)
    explore: argmax_a min_i Q_i(s, a), with chance epsilon a uniformly random action

The papers have one critic, `num_critic_replicas=1`; with two or more the lowest counts, as in TD3. It is soft actor-critic
for a discrete action without its entropy, which is why that is the base: networks, targets and critic losses are its own.

What else is known under the name of Rainbow (Hessel et al. 2018) are options: `QNetwork(dueling=True)`;
`QNetwork(noisy=True)` with `rollout_epsilon_greedy=0`; `QNetwork(num_quantiles=N)`, whose loss is `OneStepTDQRLoss` by
default; n steps by `critic_loss_ctor=partial(TDLoss, td_lambda=1.0)` and `mini_batch_length=n + 1`;
`calculate_priority=True` with `TrainerConfig.priority_replay`.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from rein import nest
from rein.algorithms.losses import OneStepTDLoss, OneStepTDQRLoss, TDQRLoss
from rein.algorithms.losses.critics import Critics, sequence_priority
from rein.algorithms.off_policy.sac import SacAlgorithm
from rein.algorithms.off_policy.sac_heads import ActionParts, Choose, Policy
from rein.algorithms.off_policy.sac_structures import (
    SacActionState,
    SacCriticInfo,
    SacCriticState,
    SacInfo,
    SacLossInfo,
    SacState,
)
from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo, TimeStep
from rein.envs import Environment
from rein.framework.acting.quick_rollout import QuickActor, acts_otherwise
from rein.framework.steps import Steps, of_first_steps
from rein.framework.trainer_config import TrainerConfig
from rein.nest import Nest
from rein.networks import HostGreedyPolicy, Network, QNetwork, has_mask, is_forbidden
from rein.ops.action_values import select_action_value
from rein.runtime.schedules import Scheduler, as_scheduler
from rein.specs import BoundedTensorSpec, TensorSpec


@configurable
class DqnAlgorithm(SacAlgorithm):
    """Deep Q-learning and double Q-learning, for one discrete action."""

    action_form: ClassVar[str] = "one discrete"

    is_compilable = True

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: BoundedTensorSpec,
        reward_spec: TensorSpec = TensorSpec(()),
        q_network_cls: Callable[..., Network] = QNetwork,
        q_optimizer: Any | None = None,
        rollout_epsilon_greedy: float | Scheduler = 0.1,
        target_net_target_action: bool = True,
        num_critic_replicas: int = 2,
        env: Environment | None = None,
        config: TrainerConfig | None = None,
        critic_loss_ctor: Callable[..., Any] | None = None,
        checkpoint: str | None = None,
        debug_summaries: bool = False,
        name: str = "DqnAlgorithm",
        reward_weights: Sequence[float] | None = None,
        epsilon_greedy: float | None = None,
        calculate_priority: bool = False,
        target_update_tau: float = 0.05,
        target_update_period: int = 1,
        one_transition: bool = False,
    ) -> None:
        """Makes the algorithm.

        Args:
            observation_spec: specs of the observation.
            action_spec: one discrete scalar action, counted from 0.
            reward_spec: a scalar, or a vector for several rewards.
            q_network_cls: called as `cls(input_tensor_spec=, action_spec=)`; gives the value of each action, or its
                quantiles.
            q_optimizer: of the critics; None leaves them to the parent.
            rollout_epsilon_greedy: chance of a uniformly random action in a rollout step.
            target_net_target_action: whether the target critics choose the target action; otherwise the critics do.
            num_critic_replicas: critics; the lowest counts.
            env: batched environment; for the root algorithm only.
            config: settings of the run; for the root algorithm only.
            critic_loss_ctor: called as `ctor(name=, debug_summaries=)` for each critic; None is `OneStepTDLoss`, or
                `OneStepTDQRLoss` for quantiles.
            checkpoint: ``"prefix@path"`` to load the parameters from.
            debug_summaries: write more summaries.
            name: name in summaries.
            reward_weights: weights of a vector reward in the choice of actions; None sums.
            epsilon_greedy: chance of a uniformly random action in evaluation; None takes it from the settings.
            calculate_priority: give priorities for prioritized replay.
            target_update_tau: how far targets move at each update of theirs; 1 copies.
            target_update_period: gradient updates from one update of the targets to the next.
            one_transition: average the loss over sequences of two steps, instead of over all of their steps, of which
                every second has none.
        """
        if not isinstance(action_spec, BoundedTensorSpec) or not action_spec.is_discrete or action_spec.ndim != 0:
            raise ValueError(
                f"{name} needs one discrete scalar action, but action_spec is {action_spec}: merge several discrete actions "
                "into one; use SacAlgorithm for continuous and mixed actions"
            )
        super().__init__(
            observation_spec=observation_spec,
            action_spec=action_spec,
            reward_spec=reward_spec,
            q_network_cls=q_network_cls,
            reward_weights=reward_weights,
            epsilon_greedy=epsilon_greedy,
            use_entropy_reward=False,
            calculate_priority=calculate_priority,
            num_critic_replicas=num_critic_replicas,
            env=env,
            config=config,
            critic_loss_ctor=critic_loss_ctor,
            target_update_tau=target_update_tau,
            target_update_period=target_update_period,
            critic_optimizer=q_optimizer,
            checkpoint=checkpoint,
            debug_summaries=debug_summaries,
            name=name,
            one_transition=one_transition,
        )
        self._log_alpha.requires_grad_(False)
        self._num_actions = action_spec.num_values
        self._has_mask = has_mask(observation_spec, action_spec)
        self._rollout_epsilon_greedy = as_scheduler(rollout_epsilon_greedy)
        self._target_net_target_action = target_net_target_action
        self._has_quantiles = isinstance(self._critic_losses[0], TDQRLoss)
        self._learns_single_transitions = (
            one_transition
            and not calculate_priority
            and all(getattr(loss, "takes_single_transitions", False) for loss in self._critic_losses)
        )

    # Acting.

    def predict_step(self, inputs: TimeStep, state: SacState) -> AlgStep:
        """The best action, or with chance `epsilon_greedy` a random one."""
        choose = self._epsilon_greedy_choice(chance(inputs.step_type, self._epsilon_greedy))
        policy = self._pick(inputs, state.action, choose)
        return AlgStep(output=policy.action, state=SacState(action=policy.state))

    def _explore(self, inputs: TimeStep, state: SacActionState) -> Policy:
        """The best action, or with chance `rollout_epsilon_greedy` a random one."""
        is_random = chance(inputs.step_type, self._rollout_epsilon_greedy())
        needs_critics = self._has_mask or bool(nest.flatten(self.rollout_state_spec))
        if is_random is not None and not needs_critics and is_random.device.type == "cpu" and bool(is_random.all()):
            # All are random: nobody asks the critics.
            return Policy(torch.randint(self._num_actions, is_random.shape, device="cpu"), (), (), state=state)
        return self._pick(inputs, state, self._epsilon_greedy_choice(is_random))

    def explore_at(self, rate: float) -> None:
        """Makes the chance of a random action in a rollout step `rate`, for good."""
        self._rollout_epsilon_greedy = as_scheduler(rate)

    def quick_actor(self) -> QuickActor | None:
        """The same on the host, if the network is small and there is one reward."""
        is_other = acts_otherwise(type(self), _PICK_ACTIONS)
        if self._reward_spec.ndim or self._critic_networks is None or self._encoder or is_other:
            return None
        # `explore_at` may change the chance later.
        return HostGreedyPolicy.of(self._critic_networks.networks, lambda: self._rollout_epsilon_greedy())

    def _epsilon_greedy_choice(self, is_random: Tensor | None) -> Choose:
        def choose(distribution: Any) -> tuple[Tensor, Any]:
            action = distribution.mode
            if is_random is not None:
                action = torch.where(is_random, self._uniform(distribution), action)
            return action, ()

        return choose

    def _uniform(self, distribution: Any) -> Tensor:
        """Actions [B] that are all alike likely, but for forbidden ones."""
        if not self._has_mask:
            return torch.randint_like(distribution.mode, self._num_actions)
        forbidden = is_forbidden(distribution.logits)
        return torch.multinomial((~forbidden).to(torch.float32), 1).squeeze(-1)

    # Learning.

    def learn(self, steps: Steps, inputs: TimeStep, state: SacState, rollout_info: SacInfo) -> AlgStep:
        """Values of the stored actions and of the target actions."""
        observation, action = steps.take((inputs.observation, rollout_info.action), steps.before_last)
        next_observation = steps.take(inputs.observation, steps.after_first)
        q, critic_state = self._q(self._critic_networks, self._encode(observation), state.action.critic)
        with torch.no_grad():
            next_q = q
            if not self._target_net_target_action and not steps.cover(steps.before_last, steps.after_first):
                next_q, _ = self._q(self._critic_networks, self._encode(next_observation), ())
            target, target_state = self._target(next_observation, next_q, state.critic.target_critics)
        reward, step_type, discount, discounted_return = steps.turn(
            (inputs.reward, inputs.step_type, inputs.discount, rollout_info.discounted_return)
        )
        critics = select_action_value(q, action)
        put = steps.put_alone if self._learns_single_transitions else steps.put
        info = SacInfo(
            reward=reward,
            step_type=step_type,
            discount=discount,
            critic=SacCriticInfo(put(critics, steps.before_last), put(target, steps.after_first)),
            discounted_return=discounted_return,
        )
        state = SacState(action=SacActionState(critic=critic_state), critic=SacCriticState(target_critics=target_state))
        return AlgStep(state=state, info=info)

    def _target(self, observation: Nest, q: Any, state: Nest) -> tuple[Tensor, Nest]:
        """min_i Q'_i(s, a*), [B, ...]; `q` holds the outputs of the critics, for double Q-learning."""
        target_q, state = self._q(self._target_critic_networks, self._encode_for_targets(observation), state)
        lowest = self._minimum(target_q)
        if self._target_net_target_action and not self._has_quantiles and lowest.ndim == 2:
            return lowest.amax(-1), state
        best = self._weighted(lowest if self._target_net_target_action else self._minimum(q)).argmax(-1)
        return select_action_value(lowest.unsqueeze(1), best).squeeze(1), state

    def calc_loss(self, info: SacInfo) -> LossInfo:
        """The losses of all critics together, [T, B]."""
        critic = self._critic_loss(info)
        priority = sequence_priority(critic, info.step_type) if self._calculate_priority else ()
        loss = LossInfo(loss=critic, priority=priority)
        if self._one_transition:
            loss = of_first_steps(loss, info.step_type)
        return loss._replace(extra=SacLossInfo(critic=loss.loss.detach() / self._num_critic_replicas))

    # Values.

    def _make_critics(self, critic: Network, num_replicas: int, reward_spec: TensorSpec, parts: ActionParts) -> Critics:
        """The critics: a value of each action, or its quantiles."""
        shape = tuple(critic.output_spec.shape)
        if reward_spec.ndim and len(shape) > 1 and shape[1:] != tuple(reward_spec.shape):
            raise ValueError(
                f"{critic.name}: quantiles need a scalar reward, got {reward_spec}: weigh it into one number first"
            )
        return super()._make_critics(critic, num_replicas, reward_spec, parts)

    def _critic_loss_ctor(self, given: Callable[..., Any] | None, critics: Critics) -> Callable[..., Any]:
        """The loss that fits what the networks give: values [n, A], or quantiles [n, A, N] of each."""
        shape = critics.networks.output_spec.shape
        has_quantiles = self._reward_spec.ndim == 0 and len(shape) == 3
        if given is None:
            return partial(OneStepTDQRLoss, num_quantiles=shape[-1]) if has_quantiles else OneStepTDLoss
        if isinstance(given(), TDQRLoss) and not has_quantiles:
            raise ValueError(
                f"{self.name}: critic_loss_ctor compares quantiles, but the network gives none: set num_quantiles"
            )
        if has_quantiles and not isinstance(given(), TDQRLoss):
            raise ValueError(
                f"{self.name}: the network gives quantiles: make critic_loss_ctor give a TDQRLoss, or leave it out"
            )
        return given

    def _weighted(self, q: Tensor) -> Tensor:
        """One number for each action: the mean of its quantiles, or the weighted sum of a vector reward."""
        return q.mean(-1) if self._has_quantiles else super()._weighted(q)


def chance(like: Tensor, epsilon: float) -> Tensor | None:
    """Where actions are random: booleans of the shape and device of `like`; None if they nowhere can be."""
    return torch.rand(like.shape, device=like.device) < epsilon if epsilon > 0.0 else None


_PICK_ACTIONS = (
    "rollout_step",
    "_explore",
    "_pick",
    "_epsilon_greedy_choice",
    "_policy_values",
    "_q",
    "_minimum",
    "_weighted",
)
"""What `DqnAlgorithm.quick_actor` does otherwise."""
