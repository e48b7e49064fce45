"""Multi-dimensional Q-learning: discrete choices, one dimension of a continuous action after another.

`MdqCriticNetwork` holds two forms of Q. The free form Q_f(s, a) is an ordinary critic. The advantage form Q_a(s, a) is built
so that the policy pi(a | s) = prod_i softmax(q_i / alpha), over bins of each dimension given those before it, is exactly its
soft-greedy policy: V(s) = E_pi [Q_a(s, a)] - alpha KL(pi || uniform). With a' ~ pi(. | s'):

    evaluate: y = r + gamma (min_i Q_f,i'(s', a') - alpha KL(pi(. | s') || uniform)),  minimise sum_i (y - Q_f,i(s, a))^2
    distill:  minimise sum_i (Q_f,i(s, a~) - Q_a,i(s, a~))^2 at a~ = a + N(0, sigma^2), without gradient to Q_f
    tune:     minimise log_alpha (-log pi(a | s) - target entropy), without gradient to pi

The free form learns from any action; distilling it makes the policy follow. Noise on the action makes the advantage form see
the neighbourhood of each bin.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rein.algorithms.losses import OneStepTDLoss
from rein.algorithms.losses.critics import keep_target_statistics, pessimistic, replicas_td_loss
from rein.algorithms.off_policy.continuous_actions import ContinuousActions, replace_rows
from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo, TimeStep
from rein.distributions import calc_default_target_entropy_quantized
from rein.envs import Environment
from rein.framework.acting.epsilon_greedy import default_epsilon_greedy
from rein.framework.off_policy_algorithm import OffPolicyAlgorithm
from rein.framework.steps import LearnsFromSteps, Steps, check_one_transition, of_first_steps
from rein.framework.trainer_config import TrainerConfig
from rein.nest import Nest
from rein.networks import MdqCriticNetwork
from rein.networks.mdq_critic_networks import MdqAction
from rein.runtime.schedules import Scheduler
from rein.specs import BoundedTensorSpec, TensorSpec
from rein.statistics import TargetUpdater


class MdqCriticState(NamedTuple):
    """Recurrent states."""

    critic: Nest = ()
    target_critic: Nest = ()


class MdqCriticInfo(NamedTuple):
    """Values of the two forms; [B, R] each, but `kl_wrt_prior` [B] and `target_critic_free_form` [B]."""

    critic_free_form: Nest = ()
    target_critic_free_form: Nest = ()
    critic_adv_form: Nest = ()
    distill_target: Nest = ()
    kl_wrt_prior: Nest = ()


class MdqAlphaInfo(NamedTuple):
    """The loss of the temperature, and what it is computed from, [B] each."""

    alpha_loss: Nest = ()
    neg_entropy: Nest = ()


class MdqInfo(NamedTuple):
    """What the losses need of a step; `rollout_step` fills `action` only."""

    reward: Nest = ()
    step_type: Nest = ()
    discount: Nest = ()
    action: Nest = ()
    critic: Nest = ()
    alpha: Nest = ()


class MdqLossInfo(NamedTuple):
    """Losses by part."""

    critic: Nest = ()
    distill: Nest = ()
    alpha: Nest = ()
    neg_entropy: Nest = ()


@configurable
class MdqAlgorithm(LearnsFromSteps, OffPolicyAlgorithm):
    """Multi-dimensional Q-learning, for one vector of continuous actions."""

    is_compilable = True

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        critic_network: MdqCriticNetwork | Callable[..., MdqCriticNetwork],
        reward_spec: TensorSpec = TensorSpec(()),
        epsilon_greedy: float | None = None,
        env: Environment | None = None,
        config: TrainerConfig | None = None,
        critic_loss_ctor: Callable[..., Any] | None = None,
        target_entropy: float | Callable[..., float] = calc_default_target_entropy_quantized,
        initial_log_alpha: float = 0.0,
        target_update_tau: float | Scheduler = 0.05,
        target_update_period: int = 1,
        distill_noise: float = 0.01,
        critic_optimizer: Any | None = None,
        alpha_optimizer: Any | None = None,
        debug_summaries: bool = False,
        name: str = "MdqAlgorithm",
        one_transition: bool = False,
    ) -> None:
        """Makes the algorithm.

        Args:
            observation_spec: spec of the observation.
            action_spec: one bounded continuous vector.
            critic_network: the critics, or their constructor, called as `ctor((observation_spec, action_spec))`.
            reward_spec: a scalar, or a vector, whose sum is what is learnt: the policy is that of one critic.
            epsilon_greedy: chance of sampling in evaluation; None takes it from the settings.
            env: batched environment; for the root algorithm only.
            config: settings of the run; for the root algorithm only.
            critic_loss_ctor: called as `ctor(debug_summaries=)`; None is `OneStepTDLoss`.
            target_entropy: entropy of the choice of bins to aim at, in nats, or a function of the action spec and the
                number of bins.
            initial_log_alpha: log of the temperature at the start.
            target_update_tau: how far targets move at each update of theirs.
            target_update_period: gradient updates from one update of the targets to the next.
            distill_noise: standard deviation of the noise on actions in distillation, in units of the action.
            critic_optimizer: of the critics; None leaves them to the parent.
            alpha_optimizer: of the temperature; None leaves it to the parent.
            debug_summaries: write more summaries.
            name: name in summaries.
            one_transition: learn from the first step of sequences of two only, at half the cost.
        """
        if reward_spec.ndim > 1:
            raise ValueError(f"{name}: reward_spec is {reward_spec}: rewards are scalars or vectors")
        if not isinstance(action_spec, BoundedTensorSpec) or action_spec.ndim != 1:
            raise ValueError(f"{name} needs one vector of continuous actions, got {action_spec}: concatenate them")
        if distill_noise < 0:
            raise ValueError(f"distill_noise is {distill_noise}: it must not be negative")
        actions = ContinuousActions(action_spec, name)
        if not isinstance(critic_network, MdqCriticNetwork):
            critic_network = critic_network((observation_spec, action_spec))
        state_spec = MdqCriticState(critic_network.state_spec, critic_network.state_spec)
        super().__init__(
            observation_spec=observation_spec,
            action_spec=action_spec,
            train_state_spec=state_spec,
            reward_spec=reward_spec,
            env=env,
            config=config,
            debug_summaries=debug_summaries,
            name=name,
        )
        check_one_transition(one_transition, config, state_spec, name)
        self._one_transition = one_transition
        self._actions = actions
        self._critic_network = critic_network
        self._target_critic_network = critic_network.copy()
        self._update_targets = TargetUpdater(
            critic_network, self._target_critic_network, tau=target_update_tau, period=target_update_period
        )
        self._log_alpha = nn.Parameter(torch.tensor(float(initial_log_alpha)))
        if callable(target_entropy):
            target_entropy = target_entropy(action_spec, critic_network.quantizer.action_bins)
        self._target_entropy = float(target_entropy)
        self._distill_noise = distill_noise
        self._epsilon_greedy = default_epsilon_greedy(epsilon_greedy, config)
        self._critic_loss = (critic_loss_ctor or OneStepTDLoss)(debug_summaries=debug_summaries)
        if critic_optimizer is not None:
            self.add_optimizer(critic_optimizer, [critic_network])
        if alpha_optimizer is not None:
            self.add_optimizer(alpha_optimizer, [self._log_alpha])

    def _trainable_attributes_to_ignore(self) -> list[str]:
        return ["_target_critic_network"]

    @property
    def _alpha(self) -> Tensor:
        return self._log_alpha.detach().exp()

    # Acting.

    def predict_step(self, time_step: TimeStep, state: MdqCriticState) -> AlgStep:
        """The likeliest bin of each dimension, or with chance `epsilon_greedy` a sample."""
        action = self._critic_network.get_action(time_step.observation, self._alpha, greedy=True).action
        if self._epsilon_greedy > 0.0:
            sample = self._critic_network.get_action(time_step.observation, self._alpha).action
            action = replace_rows(action, sample, self._epsilon_greedy)
        return AlgStep(output=action, state=state)

    def rollout_step(self, time_step: TimeStep, state: MdqCriticState) -> AlgStep:
        """A sample of the policy."""
        action = self._critic_network.get_action(time_step.observation, self._alpha).action
        return AlgStep(output=action, state=state, info=MdqInfo(action=action))

    # Learning.

    def learn(self, steps: Steps, inputs: TimeStep, state: MdqCriticState, rollout_info: MdqInfo) -> AlgStep:
        """Values of both forms at the stored action, the target, and the loss of the temperature."""
        next_observation = steps.take(inputs.observation, steps.after_first)
        sample = self._sample(steps.take(inputs.observation, steps.policy))
        if steps.cover(steps.policy, steps.after_first):
            following = steps.select(sample, steps.policy, steps.after_first)
        else:
            following = self._sample(next_observation)
        target = self._target_value(next_observation, following.action)
        pair = steps.take((inputs.observation, rollout_info.action), steps.policy)
        critic = steps.put(self._critic_step(*pair), steps.policy)
        critic = critic._replace(
            target_critic_free_form=steps.put(target, steps.after_first),
            kl_wrt_prior=steps.put(following.kl_wrt_prior, steps.after_first),
        )
        alpha = steps.put(self._alpha_step(sample.log_pi), steps.policy)
        reward, step_type, discount = steps.turn((self._scalar(inputs.reward), inputs.step_type, inputs.discount))
        return AlgStep(state=state, info=MdqInfo(reward, step_type, discount, critic=critic, alpha=alpha))

    @torch.no_grad()
    def _sample(self, observation: Nest) -> MdqAction:
        """A ~ pi(. | s)."""
        return self._critic_network.get_action(observation, self._alpha)

    @torch.no_grad()
    def _target_value(self, observation: Nest, action: Tensor) -> Tensor:
        """min_i Q_f,i'(s, a), [B]."""
        return pessimistic(self._target_critic_network((observation, action))[0], None)

    def _alpha_step(self, log_pi: Tensor) -> MdqAlphaInfo:
        """The loss of the temperature, [B]."""
        return MdqAlphaInfo(self._log_alpha * (-log_pi - self._target_entropy), log_pi)

    def _scalar(self, reward: Tensor) -> Tensor:
        """Rewards as one number each."""
        if self._reward_spec.ndim == 0:
            return reward
        return reward.sum(-1) if self._reward_weights is None else (reward * self._reward_weights).sum(-1)

    def _critic_step(self, observation: Nest, action: Tensor) -> MdqCriticInfo:
        """Q_f(s, a), and both forms at the disturbed action."""
        free_form, _ = self._critic_network((observation, action))
        noisy = self._actions.clip(action + self._distill_noise * torch.randn_like(action))
        with torch.no_grad():
            distill_target, _ = self._critic_network((observation, noisy))
        adv_form = self._critic_network.adv_form((observation, noisy), self._alpha).critic
        return MdqCriticInfo(critic_free_form=free_form, critic_adv_form=adv_form, distill_target=distill_target)

    def calc_loss(self, info: MdqInfo) -> LossInfo:
        """The losses of both forms and of the temperature, [T, B]."""
        critic = info.critic
        critic_loss = replicas_td_loss(self._critic_loss, info, critic.critic_free_form, self._soft_value(critic))
        distill_loss = (critic.distill_target - critic.critic_adv_form).square().sum(-1)
        parts = MdqLossInfo(critic_loss, distill_loss, info.alpha.alpha_loss, info.alpha.neg_entropy)
        loss = LossInfo(loss=parts.critic + parts.distill + parts.alpha, extra=parts)
        return of_first_steps(loss, info.step_type) if self._one_transition else loss

    def _soft_value(self, critic: MdqCriticInfo) -> Tensor:
        """What is bootstrapped from: the target value less alpha times the divergence from uniform, [T, B]."""
        return critic.target_critic_free_form - self._alpha * critic.kl_wrt_prior

    def after_update(self, root_inputs: Nest, info: MdqInfo) -> None:
        """Moves the target."""
        keep_target_statistics([self._critic_loss], info, lambda info: (info, self._soft_value(info.critic)))
        self._update_targets()
