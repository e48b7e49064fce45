"""Maximum a posteriori policy optimisation (Abdolmaleki et al. 2018, arXiv:1806.06920).

With pi' and Q' the target policy and critic, and N candidate actions a_i at each state, drawn from pi' (or all of them, for a
discrete action, each weighted by pi'):

    evaluate: y = r + gamma E_{a ~ pi'} Q'(s', a),  minimise (y - Q(s, a))^2
    E-step:   q_i ~ pi'(a_i) exp(Q'(s, a_i) / eta), with the temperature eta that minimises the dual
              g(eta) = eta epsilon + eta E_s log E_{a ~ pi'} exp(Q'(s, a) / eta)                                (eq. 8, 9)
    M-step:   maximise E_s sum_i q_i log pi(a_i | s) subject to KL(pi' || pi) <= limits, by Lagrange multipliers
              alpha that rise while a limit is broken                                                            (eq. 12)

Means and variances have limits of their own (`NormalHead`). dg/deta = epsilon - E_s KL(q || pi'), and KL falls with eta: the
dual is solved by Newton steps on that equation, from the last eta. The multipliers are parameters with an optimizer of their
own, plain gradient ascent; the policy's loss uses the values that this step leads to. Of the M-steps of an update the first
is part of the loss that the framework minimises; the others are updates of the same kind right after it, on the same states
and candidates.

Every network is evaluated at every step of a sequence, and everything is used: the candidates of a step give the target of
the step before and the E-step of its own.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rein import nest
from rein.algorithms.losses import OneStepTDLoss
from rein.algorithms.losses.critics import keep_target_statistics, replicas_td_loss, sequence_priority
from rein.algorithms.off_policy.continuous_actions import ContinuousActions
from rein.algorithms.off_policy.mpo_heads import Candidates, CategoricalHead, Constraint, NormalHead
from rein.config import configurable
from rein.data_structures import AlgStep, LossInfo, StepType, TimeStep
from rein.distributions import epsilon_greedy_sample, map_params, sample_action_distribution
from rein.envs import Environment
from rein.framework.acting.epsilon_greedy import default_epsilon_greedy
from rein.framework.acting.quick_rollout import QuickActor
from rein.framework.off_policy_algorithm import OffPolicyAlgorithm
from rein.framework.trainer_config import TrainerConfig
from rein.nest import Nest
from rein.networks import ActorDistributionNetwork, CriticNetwork, HostPolicy, Network, QNetwork
from rein.optimizers import SGD
from rein.runtime import summary
from rein.runtime.schedules import Scheduler
from rein.specs import BoundedTensorSpec, TensorSpec
from rein.statistics import TargetUpdater

_SMALLEST_TEMPERATURE = 1e-6


class MpoInfo(NamedTuple):
    """What the losses need of a step; `rollout_step` fills `action` only."""

    reward: Nest = ()
    step_type: Nest = ()
    discount: Nest = ()
    action: Nest = ()
    observation: Nest = ()
    action_distribution: Nest = ()
    target_distribution: Nest = ()
    candidates: Nest = ()
    q_values: Nest = ()
    target_value: Nest = ()
    temperature: Nest = ()
    """eta of the batch, the same for all of its steps."""


class MpoLossInfo(NamedTuple):
    """Losses by part, and the mean divergences from the target policy in nats."""

    critic: Nest = ()
    policy: Nest = ()
    divergences: Nest = ()


@configurable
class MpoAlgorithm(OffPolicyAlgorithm):
    """Maximum a posteriori policy optimisation, for continuous actions or one discrete action."""

    _temperature: Tensor
    _limits: Tensor
    _multiplier_scales: Tensor
    _largest_multipliers: Tensor

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        reward_spec: TensorSpec = TensorSpec(()),
        actor_network_ctor: Callable[..., Network] = ActorDistributionNetwork,
        critic_network_ctor: Callable[..., Network] = CriticNetwork,
        q_network_ctor: Callable[..., Network] = QNetwork,
        epsilon_greedy: float | None = None,
        calculate_priority: bool = False,
        env: Environment | None = None,
        config: TrainerConfig | None = None,
        critic_loss_ctor: Callable[..., Any] | None = None,
        num_critic_replicas: int = 1,
        dual_constraint: float = 0.1,
        kl_mean_constraint: float = 0.01,
        kl_var_constraint: float = 0.0001,
        kl_constraint: float = 0.01,
        alpha_scale: float = 10.0,
        alpha_mean_scale: float = 1.0,
        alpha_var_scale: float = 100.0,
        alpha_mean_max: float = 0.1,
        alpha_var_max: float = 10.0,
        alpha_max: float = 1.0,
        mstep_iterations: int = 5,
        sample_action_num: int = 64,
        target_update_tau: float | Scheduler = 0.005,
        target_update_period: int = 1,
        actor_optimizer: Any | None = None,
        critic_optimizer: Any | None = None,
        checkpoint: str | None = None,
        debug_summaries: bool = False,
        name: str = "MpoAlgorithm",
    ) -> None:
        """Makes the algorithm.

        Args:
            observation_spec: specs of the observation.
            action_spec: nest of bounded continuous specs, or one discrete scalar spec.
            reward_spec: a scalar.
            actor_network_ctor: called as `ctor(input_tensor_spec=, action_spec=)`; gives action distributions.
            critic_network_ctor: called as `ctor(input_tensor_spec=(observation_spec, action_spec))`; for continuous
                actions.
            q_network_ctor: called as `ctor(input_tensor_spec=, action_spec=)`; for a discrete action.
            epsilon_greedy: chance of sampling in evaluation; None takes it from the settings.
            calculate_priority: give priorities for prioritized replay.
            env: batched environment; for the root algorithm only.
            config: settings of the run; for the root algorithm only.
            critic_loss_ctor: called as `ctor(debug_summaries=)`; None is `OneStepTDLoss`.
            num_critic_replicas: critics; with several, the lowest counts.
            dual_constraint: how far the E-step may go from the target policy, in nats (epsilon).
            kl_mean_constraint: limit of the M-step for the means, in nats; continuous actions.
            kl_var_constraint: limit of the M-step for the variances, in nats; continuous actions.
            kl_constraint: limit of the M-step, in nats; discrete action.
            alpha_scale: step size of the multiplier; discrete action.
            alpha_mean_scale: step size of the multiplier of the means.
            alpha_var_scale: step size of the multiplier of the variances.
            alpha_mean_max: largest multiplier of the means.
            alpha_var_max: largest multiplier of the variances.
            alpha_max: largest multiplier; discrete action.
            mstep_iterations: gradient steps of the actor per update.
            sample_action_num: candidate actions per state (N); continuous actions.
            target_update_tau: how far targets move at each update of theirs.
            target_update_period: gradient updates from one update of the targets to the next.
            actor_optimizer: of the actor; None leaves it to the parent, which needs `mstep_iterations=1`.
            critic_optimizer: of the critics; None leaves them to the parent.
            checkpoint: ``"prefix@path"`` to load the parameters from.
            debug_summaries: write more summaries.
            name: name in summaries.
        """
        if reward_spec.ndim:
            raise ValueError(f"{name} needs a scalar reward, got {reward_spec}: weigh it into one number first")
        positive = {"dual_constraint": dual_constraint, "mstep_iterations": mstep_iterations}
        for key, value in positive.items():
            if value <= 0:
                raise ValueError(f"{name}: {key} is {value}: it must be positive")
        if mstep_iterations > 1 and actor_optimizer is None:
            raise ValueError(
                f"{name} makes {mstep_iterations} steps of the actor per update: give it an actor_optimizer, or set "
                "mstep_iterations=1"
            )
        actor = actor_network_ctor(input_tensor_spec=observation_spec, action_spec=action_spec)
        head: NormalHead | CategoricalHead
        if isinstance(action_spec, BoundedTensorSpec) and action_spec.is_discrete:
            limit = Constraint("kl", kl_constraint, alpha_scale, alpha_max)
            head, ctor = CategoricalHead(action_spec, limit), q_network_ctor
        else:
            ContinuousActions(action_spec, name)
            mean = Constraint("kl_mean", kl_mean_constraint, alpha_mean_scale, alpha_mean_max)
            variance = Constraint("kl_var", kl_var_constraint, alpha_var_scale, alpha_var_max)
            head, ctor = NormalHead(actor, sample_action_num, mean, variance), critic_network_ctor
        critics, target_critics = (
            head.make_critics(observation_spec, action_spec, reward_spec, ctor, num_critic_replicas) for _ in range(2)
        )
        if actor.is_rnn or not nest.is_empty(critics.state_spec):
            raise ValueError(f"{name} does not learn recurrent networks: use SacAlgorithm, or stack observations")
        super().__init__(
            observation_spec=observation_spec,
            action_spec=action_spec,
            train_state_spec=(),
            reward_spec=reward_spec,
            env=env,
            config=config,
            checkpoint=checkpoint,
            debug_summaries=debug_summaries,
            name=name,
        )
        self._head = head
        self._actor_network, self._target_actor_network = actor, actor.copy()
        self._critic_networks: nn.Module = critics
        self._target_critic_networks: nn.Module = target_critics
        self._update_targets = TargetUpdater(
            [self._actor_network, self._critic_networks],
            [self._target_actor_network, self._target_critic_networks],
            tau=target_update_tau,
            period=target_update_period,
        )
        self._epsilon_greedy = default_epsilon_greedy(epsilon_greedy, config)
        self._critic_loss = (critic_loss_ctor or OneStepTDLoss)(debug_summaries=debug_summaries)
        self._calculate_priority = calculate_priority
        self._dual_constraint = dual_constraint
        self._mstep_iterations = mstep_iterations
        self.register_buffer("_temperature", torch.tensor(1.0))
        self._multipliers = nn.Parameter(torch.zeros(len(head.constraints)))
        limits, scales, largest = torch.tensor([one[1:] for one in head.constraints]).unbind(-1)
        self.register_buffer("_limits", limits, persistent=False)
        self.register_buffer("_multiplier_scales", scales, persistent=False)
        self.register_buffer("_largest_multipliers", largest, persistent=False)
        if actor_optimizer is not None:
            self.add_optimizer(actor_optimizer, [actor])
        if critic_optimizer is not None:
            self.add_optimizer(critic_optimizer, [critics])
        self.add_optimizer(SGD(lr=1.0), [self._multipliers])

    def _trainable_attributes_to_ignore(self) -> list[str]:
        return ["_target_actor_network", "_target_critic_networks"]

    # Acting.

    def predict_step(self, inputs: TimeStep, state: Nest) -> AlgStep:
        """The mode of the policy, or with chance `epsilon_greedy` a sample."""
        policy, _ = self._actor_network(inputs.observation)
        return AlgStep(output=epsilon_greedy_sample(policy, self._epsilon_greedy), state=state)

    def rollout_step(self, inputs: TimeStep, state: Nest) -> AlgStep:
        """A sample of the policy."""
        policy, _ = self._actor_network(inputs.observation)
        action = sample_action_distribution(policy)
        return AlgStep(output=action, state=state, info=MpoInfo(action=action))

    def quick_actor(self) -> QuickActor | None:
        """The policy on the host, if it is made of plain layers."""
        if type(self).rollout_step is not MpoAlgorithm.rollout_step:
            return None
        return HostPolicy.of(self._actor_network, max_weights=None)

    def rollout_infos(self, inputs: TimeStep, action: Nest, num_acted: int) -> MpoInfo:
        """See `rollout_step`, for actions picked by `quick_actor`."""
        return MpoInfo(action=action)

    # Learning.

    def train_step(self, inputs: TimeStep, state: Nest, rollout_info: MpoInfo) -> AlgStep:
        """Policies, candidates with their values, and the value of the stored action."""
        observation, action = inputs.observation, rollout_info.action
        with torch.no_grad():
            target_policy, _ = self._target_actor_network(observation)
            candidates = self._head.candidates(self._target_critic_networks, observation, target_policy)
            target_value = (candidates.log_prior.exp() * candidates.value).sum(-1)
        policy, _ = self._actor_network(observation)
        info = MpoInfo(
            reward=inputs.reward,
            step_type=inputs.step_type,
            discount=inputs.discount,
            action=action,
            observation=observation if self._mstep_iterations > 1 else (),
            action_distribution=policy,
            target_distribution=target_policy,
            candidates=candidates,
            q_values=self._head.values(self._critic_networks, observation, action),
            target_value=target_value,
            temperature=self._e_step(candidates, inputs.step_type).expand(target_value.shape),
        )
        return AlgStep(state=state, info=info)

    @torch.no_grad()
    def _e_step(self, candidates: Candidates, step_type: Tensor) -> Tensor:
        """Equation 9: the temperature for these steps [B], a scalar."""
        acts = step_type != StepType.LAST
        if not bool(acts.any()):
            return self._temperature
        return solve_temperature(
            candidates.value[acts], candidates.log_prior[acts], self._dual_constraint, self._temperature
        )

    def calc_loss(self, info: MpoInfo) -> LossInfo:
        """The losses of critics and policy, [T, B], and of the multipliers."""
        critic_loss = replicas_td_loss(self._critic_loss, info, info.q_values, info.target_value)
        policy_loss, multiplier_loss, divergences = self._m_step_loss(info, info.action_distribution)
        priority = sequence_priority(critic_loss, info.step_type) if self._calculate_priority else ()
        if self._debug_summaries and summary.should_record_summaries():
            with summary.scope(self._name):
                summary.scalar("temperature", info.temperature.mean())
                for constraint, alpha in zip(self._head.constraints, self._multipliers, strict=True):
                    summary.scalar(f"alpha/{constraint.name}", alpha)
        names = [constraint.name for constraint in self._head.constraints]
        extra = MpoLossInfo(critic_loss, policy_loss, dict(zip(names, divergences, strict=True)))
        loss = critic_loss + policy_loss
        return LossInfo(loss=loss, scalar_loss=multiplier_loss, priority=priority, extra=extra)

    def _m_step_loss(self, info: MpoInfo, policy: Nest) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        """Equation 12: the Lagrangian [T, B], what moves its multipliers (of value 0), and its divergences [T, B]."""
        candidates, target = info.candidates, info.target_distribution
        weights = candidate_weights(candidates, info.temperature.unsqueeze(-1))
        fit = (weights * self._head.log_likelihood(policy, target, candidates.action)).sum(-1)
        divergences = self._head.divergences(policy, target)
        acts = _acts(info)
        means = torch.stack([(one.detach() * acts).sum() / acts.sum().clamp_min(1.0) for one in divergences])
        ascent = self._multiplier_scales * (means - self._limits)
        loss = -fit
        for alpha, divergence in zip(self._limited(self._multipliers.detach() + ascent), divergences, strict=True):
            loss = loss + alpha * divergence
        return loss, ((self._multipliers.detach() - self._multipliers) * ascent).sum(), divergences

    def _limited(self, multipliers: Tensor) -> Tensor:
        """The nearest multipliers that are allowed."""
        return torch.minimum(multipliers.clamp_min(0.0), self._largest_multipliers)

    def after_update(self, root_inputs: Nest, info: MpoInfo) -> None:
        """Keeps the temperature, makes the other M-steps, then moves the targets."""
        keep_target_statistics([self._critic_loss], info, lambda info: (info, info.target_value))
        self._temperature.copy_(info.temperature[-1, -1])
        self._limit_multipliers()
        for _ in range(self._mstep_iterations - 1):
            self._another_m_step(info)
        self._update_targets()

    @torch.no_grad()
    def _limit_multipliers(self) -> None:
        self._multipliers.copy_(self._limited(self._multipliers))

    def _another_m_step(self, info: MpoInfo) -> None:
        steps, size = info.step_type.shape
        # Detached: whoever made the observation of an agent has learnt from the first M-step.
        flat = nest.map_structure(lambda x: x.detach().reshape(steps * size, *x.shape[2:]), info.observation)
        policy, _ = self._actor_network(flat)
        policy = map_params(lambda x: x.reshape(steps, size, *x.shape[1:]), policy)
        loss, multiplier_loss, _ = self._m_step_loss(info, policy)
        self.update_with_gradient(LossInfo(loss=loss, scalar_loss=multiplier_loss), _acts(info))
        self._limit_multipliers()


def _acts(info: MpoInfo) -> Tensor:
    """1 for steps that an action was taken at, 0 for LAST ones, [T, B]."""
    return (info.step_type != StepType.LAST).to(torch.float32)


def candidate_weights(candidates: Candidates, temperature: Tensor) -> Tensor:
    """Equation 8: q_i of candidates, [..., N], summing to one."""
    return torch.softmax(candidates.log_prior + candidates.value / temperature, dim=-1)


def solve_temperature(
    values: Tensor, log_prior: Tensor, epsilon: float, initial: Tensor, num_steps: int = 30, tolerance: float = 1e-3
) -> Tensor:
    """The temperature eta at which the mean divergence of the candidate weights from their prior is `epsilon`.

    Args:
        values: [B, N].
        log_prior: [B, N].
        epsilon: in nats.
        initial: scalar, where to start.
        num_steps: largest number of Newton steps.
        tolerance: relative error of the divergence at which to stop.

    Returns:
        A scalar; the smallest temperature if the weights cannot diverge so far.
    """
    # KL falls from its largest value to 0 as log eta grows: Newton steps, halved into the bracket where they leave it.
    low = torch.full((), _SMALLEST_TEMPERATURE, dtype=torch.float64).log()
    high = torch.full((), 1e8, dtype=torch.float64).log()
    values, log_prior = values.double(), log_prior.double()
    values = values - values.amax(-1, keepdim=True)
    log_eta = initial.double().log().clamp(low, high)
    for _ in range(num_steps):
        scaled = values / log_eta.exp()
        log_weights = torch.log_softmax(log_prior + scaled, dim=-1)
        weights = log_weights.exp()
        mean = (weights * scaled).sum(-1, keepdim=True)
        # log w - log p = scaled - log Z: its mean is the divergence, its variance the slope.
        log_partition = torch.logsumexp(log_prior + scaled, dim=-1)
        divergence = (mean.squeeze(-1) - log_partition).mean()
        if abs(float(divergence) - epsilon) <= tolerance * epsilon:
            break
        low, high = (log_eta, high) if divergence > epsilon else (low, log_eta)
        slope = (weights * (scaled - mean).square()).sum(-1).mean()
        step = log_eta + (divergence - epsilon) / slope.clamp_min(1e-12)
        log_eta = step if low < step < high else 0.5 * (low + high)
    return log_eta.exp().to(initial.dtype)
