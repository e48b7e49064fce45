"""Soft actor-critic (Haarnoja et al. 2018, "Soft Actor-Critic Algorithms and Applications", arXiv:1812.05905).

The policy maximises rewards and its own entropy, weighted by the temperature alpha. With a ~ pi(.|s) sampled once for
all of them, Q_i the critics and Q'_i their slow copies, the losses of a step are

    actor    J_pi    = alpha log pi(a|s) - min_i Q_i(s, a)                         (eq. 7)
    critics  J_Q     = sum_i (Q_i(s_t, a_t) - y_t)^2                               (eq. 5)
             y_t     = r_{t+1} + gamma d_{t+1} (min_i Q'_i(s_{t+1}, a) - alpha log pi(a|s_{t+1}))
    alpha    J_alpha = log alpha (-log pi(a|s) - target entropy)                   (eq. 18)

where a_t is the action that was taken. The entropy term of y_t is added to the reward, so that multi-step targets of other
critic losses see it at every step. What differs between continuous, discrete and mixed actions is in `sac_heads.py`.

Deviations from the paper: every step of a sampled sequence has all three losses, and LAST steps none. The gradient of the
actor goes through dQ/da, which can be clipped, and computes no gradient for the critics. Log alpha is used in eq. 18 in
the place of alpha. With a prior pi_0, log pi becomes log pi - log pi_0 everywhere: the policy stays near the prior.
Images are encoded once for the actor and all critics, unless one of them is told what to do with them; only the critics'
losses train the encoder (Yarats et al. 2021, arXiv:1910.01741), and the target critics have a slow copy of it.
"""

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from rein import nest
from rein.algorithms.losses import OneStepTDLoss
from rein.algorithms.losses.critics import (
    Critics,
    keep_target_statistics,
    pessimistic,
    require_infos,
    sequence_priority,
)
from rein.algorithms.off_policy.sac_heads import (
    ActionHead,
    ActionParts,
    Choose,
    ContinuousHead,
    Policy,
    make_head,
    make_networks,
    predict_state_spec,
    split_action_spec,
    train_state_spec,
)
from rein.algorithms.off_policy.sac_settings import (
    TargetEntropies,
    check_rewards,
    check_settings,
    find_target_entropy,
    masked_target_entropy,
    negated_divergence,
)
from rein.algorithms.off_policy.sac_structures import (
    SacActionState,
    SacActorInfo,
    SacCriticInfo,
    SacCriticState,
    SacInfo,
    SacLossInfo,
    SacState,
)
from rein.config import configurable
from rein.data_structures import AlgStep, BatchInfo, LossInfo, TimeStep
from rein.distributions import (
    compute_log_probability,
    epsilon_greedy_sample,
    rsample_action_distribution,
    sample_action_distribution,
)
from rein.envs import Environment
from rein.framework.acting.epsilon_greedy import default_epsilon_greedy
from rein.framework.acting.quick_rollout import QuickActor, acts_otherwise
from rein.framework.off_policy_algorithm import OffPolicyAlgorithm
from rein.framework.steps import LearnsFromSteps, Steps, check_length, check_one_transition, of_first_steps
from rein.framework.trainer_config import TrainerConfig
from rein.nest import Nest
from rein.networks import (
    ActorDistributionNetwork,
    CriticNetwork,
    HostPolicy,
    HostSoftPolicy,
    Network,
    QNetwork,
    has_mask,
    is_forbidden,
)
from rein.networks.spec_encoders import ImageEncoders, with_shared_encoders
from rein.runtime import summary
from rein.specs import TensorSpec
from rein.statistics import AdaptiveNormalizer, TargetUpdater
from rein.statistics.host_scalar import HostScalar


@configurable
class SacAlgorithm(LearnsFromSteps, OffPolicyAlgorithm):
    """Soft actor-critic for continuous, discrete and mixed actions."""

    action_form: ClassVar[str] = "discrete first"
    """How environments should offer their actions, see `rein.envs.action_forms`."""
    takes_action_masks: ClassVar[bool] = True
    """Whether a mask of valid actions in the observation is respected, see `rein.networks.action_masks`."""

    is_compilable = True

    _target_entropy: Tensor
    _masked_target_entropy: Tensor | None

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        reward_spec: TensorSpec = TensorSpec(()),
        actor_network_cls: Callable[..., Network] = ActorDistributionNetwork,
        critic_network_cls: Callable[..., Network] | None = CriticNetwork,
        q_network_cls: Callable[..., Network] = QNetwork,
        reward_weights: Sequence[float] | None = None,
        epsilon_greedy: float | None = None,
        use_entropy_reward: bool = True,
        normalize_entropy_reward: bool = False,
        calculate_priority: bool = False,
        num_critic_replicas: int = 2,
        env: Environment | None = None,
        config: TrainerConfig | None = None,
        critic_loss_ctor: Callable[..., Any] | None = None,
        target_entropy: TargetEntropies = None,
        prior_actor_ctor: Callable[..., Any] | None = None,
        target_kld_per_dim: float = 3.0,
        initial_log_alpha: float = 0.0,
        max_log_alpha: float | None = None,
        target_update_tau: float = 0.05,
        target_update_period: int = 1,
        dqda_clipping: float | None = None,
        actor_optimizer: Any | None = None,
        critic_optimizer: Any | None = None,
        alpha_optimizer: Any | None = None,
        checkpoint: str | None = None,
        debug_summaries: bool = False,
        reproduce_locomotion: bool = False,
        name: str = "SacAlgorithm",
        one_transition: bool = False,
        discrete_actor_network_cls: Callable[..., Network] | None = None,
    ) -> None:
        """Makes the algorithm.

        Args:
            observation_spec: specs of the observation.
            action_spec: bounded specs: any nest of continuous actions, one discrete action, or
                `(discrete, continuous)`.
            reward_spec: a scalar, or a vector for several rewards (not with mixed actions).
            actor_network_cls: called as `cls(input_tensor_spec=, action_spec=)`; distributions of continuous actions.
            critic_network_cls: called as `cls(input_tensor_spec=(observation_spec, action_spec))` for continuous
                actions; None leaves the critics out, for acting only.
            q_network_cls: called as `cls(input_tensor_spec=, action_spec=)` if there is a discrete action; its input is
                the observation, or `(observation, continuous action)` for mixed actions.
            reward_weights: weights of a vector reward where the policy needs one number; None sums. Targets of the
                critics are never weighted.
            epsilon_greedy: chance of sampling in evaluation; None takes it from the settings.
            use_entropy_reward: whether the values include the entropy of the policy.
            normalize_entropy_reward: shift the entropy reward to mean 0, which takes the
                incentive to prolong or shorten episodes from it.
            calculate_priority: give sequences priorities, for prioritized replay.
            num_critic_replicas: number n of critics.
            env: batched environment; for the root algorithm only.
            config: settings of the run; for the root algorithm only.
            critic_loss_ctor: called as `ctor(name=, debug_summaries=)` for each critic; None is `OneStepTDLoss`.
            target_entropy: entropy in nats that alpha is tuned for: a number, or a function of the action spec; None is
                `calc_default_target_entropy`. For mixed actions maybe a pair, for the discrete and the continuous one.
                Where a mask leaves n valid actions, the function gets the spec of n actions.
            prior_actor_ctor: called as `ctor(observation_spec, action_spec, debug_summaries=)`; makes the prior that
                the policy should stay near, in the place of high entropy.
            target_kld_per_dim: with a prior, alpha is tuned for this KL divergence, times the number of actions.
            initial_log_alpha: log of the temperature at the start.
            max_log_alpha: upper limit of it; None is none.
            target_update_tau: how far target critics move at each update of them.
            target_update_period: gradient updates between updates of the target critics.
            dqda_clipping: limit of each element of dQ/da in the actor loss; None or 0 is none.
            actor_optimizer: for the actor.
            critic_optimizer: for the critics.
            alpha_optimizer: for the temperatures, which stay as they are without one.
            checkpoint: ``"prefix@path"`` to load the parameters from.
            debug_summaries: write more summaries.
            reproduce_locomotion: act at random until the first update; no policy loss at the first step of a sequence
                and no critic loss at the last one.
            name: name in summaries.
            one_transition: use sequences of two steps as one transition: actor, critics and alpha have a loss at the
                first step only, target critics are evaluated at the second only, and the mean is over sequences.
            discrete_actor_network_cls: called as `cls(input_tensor_spec=, action_spec=)`; gives the distribution of a
                discrete action, learnt beside the critics (Christodoulou 2019); None lets the critics pick it.
        """
        parts = split_action_spec(action_spec, name)
        check_rewards(name, reward_spec, parts)
        check_settings(
            name,
            config,
            num_critic_replicas=num_critic_replicas,
            initial_log_alpha=initial_log_alpha,
            max_log_alpha=max_log_alpha,
            target_kld_per_dim=target_kld_per_dim,
            target_update_tau=target_update_tau,
            dqda_clipping=dqda_clipping,
            reproduce_locomotion=reproduce_locomotion,
            one_transition=one_transition,
        )
        network_ctors = (actor_network_cls, critic_network_cls, q_network_cls, discrete_actor_network_cls)
        encoder, actor, critic = with_shared_encoders(
            observation_spec, lambda spec: make_networks(name, spec, parts, *network_ctors)
        )
        critics = None if critic is None else self._make_critics(critic, num_critic_replicas, reward_spec, parts)
        head = make_head(actor, parts, action_spec, encoder is not None)
        state_spec = train_state_spec(head, actor, critics)
        check_one_transition(one_transition, config, state_spec, name)
        super().__init__(
            observation_spec=observation_spec,
            action_spec=action_spec,
            reward_spec=reward_spec,
            reward_weights=reward_weights,
            train_state_spec=state_spec,
            predict_state_spec=predict_state_spec(head, actor, critics),
            is_eval=critics is None,
            env=env,
            config=config,
            checkpoint=checkpoint,
            debug_summaries=debug_summaries,
            name=name,
        )
        self._head: ActionHead = head
        self._encoder: ImageEncoders | None = encoder
        self._target_encoder: ImageEncoders | None = None
        self._actor_network = actor
        self._critic_networks = critics
        self._target_critic_networks: Critics | None = None
        self._num_critic_replicas = num_critic_replicas
        self._log_alpha = nn.Parameter(torch.full((head.num_temperatures,), float(initial_log_alpha)))
        self._max_log_alpha = max_log_alpha
        self._epsilon_greedy = default_epsilon_greedy(epsilon_greedy, config)
        self._use_entropy_reward = use_entropy_reward
        self._entropy_normalizer = None
        if use_entropy_reward and normalize_entropy_reward:
            spec = TensorSpec((head.num_temperatures,))
            self._entropy_normalizer = AdaptiveNormalizer(spec, auto_update=False, unit_std=True)
            self.needs_update_infos = True
        self._calculate_priority = calculate_priority
        self._dqda_clipping = dqda_clipping
        self._reproduce_locomotion = reproduce_locomotion
        self._training_started = HostScalar(0) if reproduce_locomotion else None
        self._one_transition = one_transition
        self._prior_actor = None
        if prior_actor_ctor is not None:
            self._prior_actor = prior_actor_ctor(observation_spec, action_spec, debug_summaries=debug_summaries)
            target_entropy = partial(negated_divergence, target_kld_per_dim)
        target_entropies = find_target_entropy(name, target_entropy, head.parts(action_spec))
        self.register_buffer("_target_entropy", target_entropies, persistent=False)
        is_masked = has_mask(observation_spec, parts.discrete)
        masked = masked_target_entropy(target_entropy, head.num_temperatures, parts.discrete) if is_masked else None
        self.register_buffer("_masked_target_entropy", masked, persistent=False)
        self._critic_losses = nn.ModuleList()
        if critics is not None:
            ctor = self._critic_loss_ctor(critic_loss_ctor, critics)
            losses = [ctor(name=f"critic_loss{i}", debug_summaries=debug_summaries) for i in range(num_critic_replicas)]
            self._critic_losses.extend(losses)
            targets = self._target_critic_networks = critics.copy()
            self._target_encoder = None if encoder is None else encoder.copy()
            followed = [one for one in (critics, encoder) if one is not None]
            followers = [one for one in (targets, self._target_encoder) if one is not None]
            self._target_updater = TargetUpdater(followed, followers, target_update_tau, target_update_period)
            self._add_optimizers(actor_optimizer, critic_optimizer, alpha_optimizer)

    # Acting.

    def predict_step(self, inputs: TimeStep, state: SacState) -> AlgStep:
        """The mode of the policy, or with chance `epsilon_greedy` a sample."""
        policy = self._pick(inputs, state.action, lambda d: (epsilon_greedy_sample(d, self._epsilon_greedy), ()))
        info = SacInfo(action_distribution=policy.distribution)
        return AlgStep(output=policy.action, state=SacState(action=policy.state), info=info)

    def rollout_step(self, inputs: TimeStep, state: SacState) -> AlgStep:
        """A sample of the policy; with stored recurrent states, those of the critics are kept up too."""
        policy = self._explore(inputs, state.action)
        action = policy.action
        if self._training_started is not None and not self._training_started.get():
            batch = inputs.step_type.shape
            action = nest.map_structure(lambda spec: spec.sample(batch), self._action_spec)
        new_state = state._replace(action=policy.state)
        if self.need_full_rollout_state():
            new_state = self._follow(inputs.observation, action, new_state)
        return AlgStep(output=action, state=new_state, info=SacInfo(action=action))

    def quick_actor(self) -> QuickActor | None:
        """The policy on the host: of a discrete action by the critics, or of an actor, if it is made of plain layers."""
        if self._training_started is not None or self._encoder is not None:
            return None
        if isinstance(self._head, ContinuousHead) and self._actor_network is not None:
            is_other = acts_otherwise(type(self), _PICK_ACTIONS)
            return None if is_other else HostPolicy.of(self._actor_network, max_weights=None)
        critics = self._critic_networks if self._head.policy_is_critic and not self._reward_spec.ndim else None
        if critics is None or acts_otherwise(type(self), _PICK_ACTIONS + _PICK_BY_CRITICS):
            return None
        return HostSoftPolicy.of(critics.networks, lambda: self._alpha().item())

    def rollout_infos(self, inputs: TimeStep, action: Nest, num_acted: int) -> SacInfo:
        """See `rollout_step`, for actions picked by `quick_actor`."""
        return SacInfo(action=action)

    def _explore(self, inputs: TimeStep, state: SacActionState) -> Policy:
        """How the rollout picks its actions."""
        return self._pick(inputs, state, lambda d: (sample_action_distribution(d), ()))

    def _pick(self, inputs: TimeStep, state: SacActionState, choose: Choose) -> Policy:
        """The policy, with actions picked by `choose`."""
        return self._policy_at(self._encode(inputs.observation), state, choose)

    def _policy_at(self, seen: Nest, state: SacActionState, choose: Choose) -> Policy:
        """The same for what the networks see of observations."""
        return self._head.policy(seen, state, choose, self._policy_values, self._alpha())

    def _encode(self, observation: Nest) -> Nest:
        """The observation [..., *shape] as actor and critics see it."""
        return observation if self._encoder is None else self._encoder(observation)[0]

    def _encode_for_targets(self, observation: Nest) -> Nest:
        """The observation [..., *shape] as target critics see it."""
        return observation if self._target_encoder is None else self._target_encoder(observation)[0]

    def _follow(self, observation: Nest, action: Nest, state: SacState) -> SacState:
        """`state` with the critics' states after `action`, which stands for stored and fresh action alike."""
        critic_input = self._head.critic_input(self._encode(observation), action)
        target_input = self._head.critic_input(self._encode_for_targets(observation), action)
        _, critics = self._q(self._critic_networks, critic_input, state.critic.critics)
        _, target_critics = self._q(self._target_critic_networks, target_input, state.critic.target_critics)
        spec = self._train_state_spec
        return state._replace(
            actor=() if nest.is_empty(spec.actor) else critics,
            critic=SacCriticState(() if nest.is_empty(spec.critic.critics) else critics, target_critics),
        )

    # Learning.

    def preprocess_experience(
        self, root_inputs: Nest, rollout_info: SacInfo, batch_info: BatchInfo
    ) -> tuple[Nest, SacInfo]:
        """Hands on the returns that the replay buffer may record."""
        if not isinstance(batch_info.discounted_return, Tensor):
            return root_inputs, rollout_info
        return root_inputs, rollout_info._replace(discounted_return=batch_info.discounted_return)

    def learn(self, steps: Steps, inputs: TimeStep, state: SacState, rollout_info: SacInfo) -> AlgStep:
        """Policy, values and losses."""
        policy_inputs = steps.take(inputs, steps.policy)
        seen = self._encode(policy_inputs.observation)
        policy = self._policy(policy_inputs, seen, state.action)
        actor, actor_state = self._actor_loss(seen, policy, state.actor)
        if not steps.cover(steps.policy, steps.before_last):
            seen = self._encode(steps.take(inputs.observation, steps.before_last))
        else:
            seen = steps.select(seen, steps.policy, steps.before_last)
        critics, critics_state = self._taken_values(steps, seen, rollout_info.action, policy, state.critic.critics)
        following, log_pi = self._following(steps, inputs, policy)
        target_critic, target_state = self._target_values(
            steps.take(inputs.observation, steps.after_first), *following, state.critic.target_critics
        )
        reward, step_type, discount, discounted_return = steps.turn(
            (inputs.reward, inputs.step_type, inputs.discount, rollout_info.discounted_return)
        )
        info = SacInfo(
            reward=reward,
            step_type=step_type,
            discount=discount,
            action_distribution=steps.put(policy.distribution, steps.policy),
            actor=steps.put(actor, steps.policy),
            critic=SacCriticInfo(steps.put(critics, steps.before_last), steps.put(target_critic, steps.after_first)),
            alpha=steps.put(self._alpha_loss(policy.log_pi, self._wanted_entropy(policy.distribution)), steps.policy),
            log_pi=log_pi,
            discounted_return=discounted_return,
        )
        state = SacState(policy.state, actor_state, SacCriticState(critics_state, target_state))
        return AlgStep(output=policy.action, state=state, info=info)

    def _policy_steps(self, length: int) -> range:
        """All but the first, if `reproduce_locomotion` says so."""
        return range(1, length) if self._reproduce_locomotion else super()._policy_steps(length)

    def _policy(self, inputs: TimeStep, seen: Nest, state: SacActionState) -> Policy:
        """Samples a ~ pi(.|s) with log pi(a|s), less log pi_0(a|s) if there is a prior; `seen` are the encoded inputs."""
        policy = self._policy_at(seen, state, _sample_for_training)
        if self._prior_actor is None:
            return policy
        prior = self._prior_actor.train_step(inputs, (), ()).output
        parts = zip(self._head.parts(prior), self._head.parts(policy.action), strict=True)
        log_prior = torch.stack([compute_log_probability(part, action) for part, action in parts], -1)
        return policy._replace(log_pi=policy.log_pi - log_prior)

    def _actor_loss(self, seen: Nest, policy: Policy, state: Nest) -> tuple[LossInfo, Nest]:
        """J_pi = alpha log pi(a|s) - Q(s, a), whose gradient is taken through dQ/da."""
        value, state = self._head.climbed(seen, policy, state, self._policy_values)
        neg_entropy = policy.log_pi.sum(-1)
        if value is None:
            return LossInfo(extra=SacActorInfo(neg_entropy=neg_entropy)), state
        ascent = self._head.ascent(value, policy.action, self._dqda_clipping)
        entropy_term = self._alpha()[-1] * policy.log_pi[:, -1]
        return LossInfo(loss=ascent + entropy_term, extra=SacActorInfo(ascent, neg_entropy)), state

    def _taken_values(self, steps: Steps, seen: Nest, action: Nest, policy: Policy, state: Nest) -> tuple[Tensor, Nest]:
        """Q_i(s_t, a_t), [B, n, ...], from the outputs that `policy` is made of where it has them."""
        action = steps.take(action, steps.before_last)
        if self._head.policy_is_critic and steps.cover(steps.policy, steps.before_last):
            return self._head.of_taken(steps.select(policy.q, steps.policy, steps.before_last), action), ()
        q, state = self._q(self._critic_networks, self._head.critic_input(seen, action), state)
        return self._head.of_taken(q, action), state

    def _following(self, steps: Steps, inputs: TimeStep, policy: Policy) -> tuple[tuple[Nest, Nest], Tensor]:
        """Action and distribution after the first step, sampled anew if the policy does not learn there; log pi of all."""
        log_pi = steps.put(policy.log_pi, steps.policy)
        if steps.cover(steps.policy, steps.after_first):
            return steps.select((policy.action, policy.distribution), steps.policy, steps.after_first), log_pi
        with torch.no_grad():
            next_inputs = steps.take(inputs, steps.after_first)
            following = self._policy(next_inputs, self._encode(next_inputs.observation), SacActionState())
        log_pi = log_pi + steps.put(following.log_pi, steps.after_first)
        return (following.action, following.distribution), log_pi

    @torch.no_grad()
    def _target_values(self, observation: Nest, action: Nest, distribution: Nest, state: Nest) -> tuple[Tensor, Nest]:
        """min_i Q'_i(s, a) of a fresh action, [B, ...]; of a discrete one the mean under its distribution."""
        critic_input = self._head.critic_input(self._encode_for_targets(observation), action)
        q, state = self._q(self._target_critic_networks, critic_input, state)
        return self._head.expected(self._minimum(q), distribution), state

    def _alpha_loss(self, log_pi: Tensor, target_entropy: Tensor) -> Tensor:
        """J_alpha = log alpha (-log pi(a|s) - target entropy), [B], summed over temperatures."""
        return (self._log_alpha * (-log_pi - target_entropy).detach()).sum(-1)

    def _wanted_entropy(self, distribution: Nest) -> Tensor:
        """The target entropies, [K]; [B, K] with masks, which leave fewer actions to choose from."""
        if self._masked_target_entropy is None:
            return self._target_entropy
        num_valid = (~is_forbidden(self._head.parts(distribution)[0].logits)).sum(-1)
        of_choices = self._masked_target_entropy[num_valid].unsqueeze(-1)
        return torch.cat([of_choices, self._target_entropy[1:].expand(len(of_choices), -1)], -1)

    def calc_loss(self, info: SacInfo) -> LossInfo:
        """The sum of the losses of actor, critics and alpha."""
        check_length(self._one_transition, info.step_type.shape[0], self._name)
        critic = self._critic_loss(info)
        policy = info.actor.loss + info.alpha if isinstance(info.actor.loss, Tensor) else info.alpha
        if self._reproduce_locomotion:
            policy = torch.cat([torch.zeros_like(policy[:1]), policy[1:]])
            critic = torch.cat([critic[:-1], torch.zeros_like(critic[-1:])])
        extra = SacLossInfo(info.actor.extra, critic / self._num_critic_replicas, info.alpha)
        priority = sequence_priority(critic, info.step_type) if self._calculate_priority else ()
        loss = LossInfo(loss=policy + critic, extra=extra, priority=priority)
        self._summarize_alpha()
        return of_first_steps(loss, info.step_type) if self._one_transition else loss

    def _critic_loss(self, info: SacInfo) -> Tensor:
        """TD losses [T, B] of all critics together."""
        info = self._with_entropy_reward(info)
        critics, target = info.critic.critics, info.critic.target_critic
        losses = [loss(info, critics[:, :, i], target).loss for i, loss in enumerate(self._critic_losses)]
        return reduce(torch.add, losses)

    @torch.no_grad()
    def _with_entropy_reward(self, info: SacInfo) -> SacInfo:
        """Adds -alpha log pi(a|s_t) gamma d_t, what the entropy earns, to each r_t."""
        if not self._use_entropy_reward:
            return info
        log_pi = info.log_pi
        if self._entropy_normalizer is not None:
            log_pi = self._entropy_normalizer.updated_by(log_pi).normalize(log_pi)
        entropy = -(self._alpha() * log_pi).sum(-1) * info.discount
        entropy = entropy if self._reward_spec.ndim == 0 else entropy.unsqueeze(-1)
        return info._replace(reward=info.reward + entropy * self._critic_losses[0].gamma)

    def _targets(self, info: SacInfo) -> tuple[SacInfo, Tensor]:
        """What the critic losses get: rewards with entropy, and values to bootstrap from."""
        return self._with_entropy_reward(info), info.critic.target_critic

    def after_update(self, root_inputs: Nest, info: Nest) -> None:
        """Keeps statistics, moves the target critics, and limits alpha."""
        keep_target_statistics(self._critic_losses, info, self._targets)
        if self._entropy_normalizer is not None:
            self._entropy_normalizer.update(require_infos(info, "normalize_entropy_reward").log_pi)
        self._target_updater()
        if self._max_log_alpha is not None:
            with torch.no_grad():
                self._log_alpha.clamp_(max=self._max_log_alpha)
        if self._training_started is not None:
            self._training_started.set(1)

    # Values.

    def _alpha(self) -> Tensor:
        """The temperatures, [K], without gradient."""
        return self._log_alpha.detach().exp()

    def _q(self, critics: Critics | None, inputs: Nest, state: Nest) -> tuple[Tensor, Nest]:
        """All outputs of the critics: [B, n] or [B, n, D], or [B, n, A] or [B, n, A, D] with a discrete action."""
        if critics is None:
            raise ValueError(f"{self.name} was built with critic_network_cls=None: it can act, but not learn")
        return critics(inputs, state)

    def _minimum(self, q: Tensor) -> Tensor:
        """min_i Q_i, [B, ...] from [B, n, ...]."""
        return pessimistic(q, self._reward_weights)

    def _weighted(self, q: Tensor) -> Tensor:
        """One number for each value that the policy compares: the weighted sum of a vector reward."""
        assert self._critic_networks is not None
        return self._critic_networks.weighted(q, self._reward_weights)

    def _policy_values(self, inputs: Nest, state: Nest) -> tuple[Tensor, Tensor, Nest]:
        """The outputs of the critics, the value that the policy is improved by, and the state."""
        q, state = self._q(self._critic_networks, inputs, state)
        return q, self._weighted(self._minimum(q)), state

    # Builders.

    def _make_critics(self, critic: Network, num_replicas: int, reward_spec: TensorSpec, parts: ActionParts) -> Critics:
        """The critics: one value, or one for each discrete action."""
        return Critics(critic, num_replicas, reward_spec, num_value_dims=int(parts.discrete != ()))

    def _critic_loss_ctor(self, given: Callable[..., Any] | None, critics: Critics) -> Callable[..., Any]:
        """Makes the loss of each critic."""
        return OneStepTDLoss if given is None else given

    def _add_optimizers(self, actor: Any, critic: Any, alpha: Any) -> None:
        if actor is not None and self._actor_network is not None:
            self.add_optimizer(actor, [self._actor_network])
        if critic is not None and self._critic_networks is not None:
            self.add_optimizer(critic, [one for one in (self._critic_networks, self._encoder) if one is not None])
        if alpha is not None:
            self.add_optimizer(alpha, [self._log_alpha])

    def _trainable_attributes_to_ignore(self) -> list[str]:
        return ["_target_critic_networks", "_target_encoder"]

    def _state_prefixes_to_ignore(self) -> list[str]:
        critics = ["_critic_networks", "_target_critic_networks", "_target_encoder"]
        return [*critics, "_target_updater", "_critic_losses", "_optimizers"] if self._is_eval else []

    def _summarize_alpha(self) -> None:
        if self._debug_summaries and summary.should_record_summaries():
            for i, alpha in enumerate(self._alpha()):
                summary.scalar(f"{self._name}/alpha/{i}", alpha)


def _sample_for_training(distributions: Nest) -> tuple[Nest, Tensor]:
    """A sample, reparameterised where that is possible, with its log-probability [B]."""
    can_follow = all(leaf.has_rsample for leaf in nest.flatten(distributions))
    sample: Any = rsample_action_distribution if can_follow else sample_action_distribution
    return sample(distributions, return_log_prob=True)


_PICK_ACTIONS = ("rollout_step", "_explore", "_pick", "_policy_at", "_encode")
_PICK_BY_CRITICS = ("_policy_values", "_q", "_minimum", "_weighted", "_alpha")
"""What `SacAlgorithm.quick_actor` does otherwise, with an actor and without."""
