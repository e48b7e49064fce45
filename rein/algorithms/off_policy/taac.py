"""Temporally abstract actor-critic (Yu et al. 2021, "TAAC: Temporally Abstract Actor-Critic", arXiv:2104.06521).

SAC with a second stage. The actor proposes a new course of the action, tau^ ~ pi(.|s, tau-), and a switch chooses between
going on with the previous course tau- and the new one:

    beta(b|s, tau^, tau-)  is proportional to  exp(Q(s, tau_b) / alpha_0),   tau_0 = tau-, tau_1 = tau^

which is the optimal switch in closed form. With a^ the sample of the actor, the losses of a step are

    actor    J_pi    = -beta_1 Q(s, tau^) + alpha_1 log pi(a^|s, tau-)            (beta_1 and dQ/da^ held fixed)
    critics  J_Q     = sum_i (Q_i(s_t, tau_t) - y_t)^2,  y_t by `TAACTDLoss` from V(s) = sum_b beta_b min_i Q'_i(s, tau_b)
    alpha    J_alpha = log alpha_0 (H(beta) - H_0) + log alpha_1 (-log pi - H_1)

What is repeated is a constant (TAAC), a linear (TaacL) or a quadratic course (TaacQ); see `taac_trajectories.py`.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from rein import nest
from rein.algorithms.losses.critics import Critics, action_gradient_loss, keep_target_statistics, pessimistic
from rein.algorithms.off_policy.sac_settings import TargetEntropies, find_target_entropy
from rein.algorithms.off_policy.taac_loss import TAACTDLoss
from rein.algorithms.off_policy.taac_settings import check_settings
from rein.algorithms.off_policy.taac_structures import (
    ActPredOutput,
    Distributions,
    TaacActorInfo,
    TaacCriticInfo,
    TaacInfo,
    TaacLossInfo,
    TaacState,
)
from rein.algorithms.off_policy.taac_trajectories import (
    ConstantTrajectory,
    LinearTrajectory,
    QuadraticTrajectory,
    Tau,
    Trajectory,
    tau_spec,
)
from rein.config import configurable
from rein.data_structures import AlgStep, Experience, LossInfo, TimeStep
from rein.distributions import Categorical, epsilon_greedy_sample, sample_action_distribution
from rein.envs import Environment
from rein.framework.acting.epsilon_greedy import default_epsilon_greedy
from rein.framework.off_policy_algorithm import OffPolicyAlgorithm
from rein.framework.steps import LearnsFromSteps, Steps
from rein.framework.trainer_config import TrainerConfig
from rein.nest import Nest
from rein.networks import ActorDistributionNetwork, CriticNetwork, Detach, NestConcat, Network
from rein.runtime import summary
from rein.specs import BoundedTensorSpec, TensorSpec
from rein.statistics import TargetUpdater

_DETACH = Detach()


@configurable
class TaacAlgorithmBase(LearnsFromSteps, OffPolicyAlgorithm):
    """Temporally abstract actor-critic, for one continuous action."""

    _target_entropy: Tensor
    _middle: Tensor
    _half_range: Tensor

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: BoundedTensorSpec,
        reward_spec: TensorSpec = TensorSpec(()),
        actor_network_cls: Callable[..., Network] = ActorDistributionNetwork,
        critic_network_cls: Callable[..., Network] = CriticNetwork,
        actor_observation_processors: Nest = _DETACH,
        reward_weights: Sequence[float] | None = None,
        num_critic_replicas: int = 2,
        epsilon_greedy: float | None = None,
        env: Environment | None = None,
        config: TrainerConfig | None = None,
        target_update_tau: float = 0.05,
        target_update_period: int = 1,
        critic_loss_ctor: Callable[..., Any] | None = None,
        actor_optimizer: Any | None = None,
        critic_optimizer: Any | None = None,
        alpha_optimizer: Any | None = None,
        initial_alpha: float = 1.0,
        debug_summaries: bool = False,
        randomize_first_state_tau: bool = False,
        b1_advantage_clipping: tuple[float, float] | None = None,
        max_repeat_steps: int | None = None,
        target_entropy: TargetEntropies = None,
        checkpoint: str | None = None,
        name: str = "TaacAlgorithmBase",
        trajectory: Trajectory | None = None,
    ) -> None:
        """Makes the algorithm.

        Args:
            observation_spec: specs of the observation.
            action_spec: one bounded continuous vector.
            reward_spec: a scalar, or a vector for several rewards.
            actor_network_cls: called as `cls(input_tensor_spec=(observation_spec, course), action_spec=,
                input_preprocessors=, preprocessing_combiner=)`; the course has all its numbers in one vector.
            critic_network_cls: called as `cls(input_tensor_spec=(observation_spec, course))`.
            actor_observation_processors: applied to the observation for the actor; one module for all parts of a nest,
                or a nest of them. By default the actor does not train what made the observation.
            reward_weights: weights of a vector reward where the policy needs one number; None sums.
            num_critic_replicas: number of critics.
            epsilon_greedy: chance of sampling in evaluation; None takes it from the settings.
            env: batched environment; for the root algorithm only.
            config: settings of the run; for the root algorithm only.
            target_update_tau: how far target critics move at each update of them.
            target_update_period: gradient updates between updates of the target critics.
            critic_loss_ctor: called as `ctor(name=, debug_summaries=)` for each critic; None is `TAACTDLoss`.
            actor_optimizer: for the actor.
            critic_optimizer: for the critics.
            alpha_optimizer: for the temperatures.
            initial_alpha: both temperatures at the start.
            debug_summaries: write more summaries.
            randomize_first_state_tau: begin episodes of the rollout with a random previous course, instead of zeros; it
                is stored, so training sees it too.
            b1_advantage_clipping: limits of Q(s, tau^) - Q(s, tau-) in the switch; None is none.
            max_repeat_steps: steps that a course may be repeated in a row in rollout and evaluation; None is no limit.
            target_entropy: entropy in nats that the temperatures are tuned for: a number or a function of the action
                spec, or a pair of them for the switch and the action; None is `calc_default_target_entropy`. The
                action counts as scaled to [-1, 1].
            checkpoint: ``"prefix@path"`` to load the parameters from.
            name: name in summaries.
            trajectory: what is repeated; None is the action.
        """
        check_settings(name, action_spec, initial_alpha, b1_advantage_clipping, max_repeat_steps, config)
        trajectory = ConstantTrajectory() if trajectory is None else trajectory
        tau = tau_spec(trajectory, action_spec.numel)
        super().__init__(
            observation_spec=observation_spec,
            action_spec=action_spec,
            reward_spec=reward_spec,
            reward_weights=reward_weights,
            train_state_spec=(),
            rollout_state_spec=TaacState(tau, TensorSpec((), torch.int64)),
            env=env,
            config=config,
            checkpoint=checkpoint,
            debug_summaries=debug_summaries,
            name=name,
        )
        self._trajectory = trajectory
        inputs = (observation_spec, TensorSpec((action_spec.numel * (trajectory.order + 1),)))
        unit_spec = BoundedTensorSpec(action_spec.shape, torch.float32, -1.0, 1.0)
        self._actor_network = actor_network_cls(
            input_tensor_spec=inputs,
            action_spec=unit_spec,
            input_preprocessors=(_for_all(actor_observation_processors, observation_spec), None),
            preprocessing_combiner=NestConcat(),
        )
        self._critics = Critics(critic_network_cls(input_tensor_spec=inputs), num_critic_replicas, reward_spec)
        if self._actor_network.is_rnn or not nest.is_empty(self._critics.state_spec):
            raise ValueError(f"{name}: its networks have no memory: use networks that are not recurrent")
        self._target_critics = self._critics.copy()
        self._target_updater = TargetUpdater(
            self._critics, self._target_critics, target_update_tau, target_update_period
        )
        ctor = TAACTDLoss if critic_loss_ctor is None else critic_loss_ctor
        losses = [ctor(name=f"critic_loss{i}", debug_summaries=debug_summaries) for i in range(num_critic_replicas)]
        self._critic_losses = nn.ModuleList(losses)
        self._log_alpha = nn.Parameter(torch.full((2,), math.log(initial_alpha)))
        switch_spec = BoundedTensorSpec((), torch.int64, 0, 1)
        target_entropies = find_target_entropy(name, target_entropy, (switch_spec, unit_spec))
        self.register_buffer("_target_entropy", target_entropies, persistent=False)
        low, high = (torch.tensor(bound, dtype=torch.float32) for bound in (action_spec.minimum, action_spec.maximum))
        self.register_buffer("_middle", 0.5 * (low + high), persistent=False)
        self.register_buffer("_half_range", 0.5 * (high - low), persistent=False)
        self._epsilon_greedy = default_epsilon_greedy(epsilon_greedy, config)
        self._randomize_first_state_tau = randomize_first_state_tau
        self._b1_advantage_clipping = b1_advantage_clipping
        self._max_repeat_steps = max_repeat_steps
        for optimizer, item in (
            (actor_optimizer, self._actor_network),
            (critic_optimizer, self._critics),
            (alpha_optimizer, self._log_alpha),
        ):
            if optimizer is not None:
                self.add_optimizer(optimizer, [item])

    # Acting.

    def predict_step(self, inputs: TimeStep, state: TaacState) -> AlgStep:
        """The modes of both stages, or with chance `epsilon_greedy` samples."""
        return self._act(inputs, state, partial(epsilon_greedy_sample, eps=self._epsilon_greedy))

    def rollout_step(self, inputs: TimeStep, state: TaacState) -> AlgStep:
        """A sample of both stages."""
        if self._randomize_first_state_tau:
            is_first = inputs.is_first().unsqueeze(-1)
            tau = nest.map_structure(lambda x: torch.where(is_first, 2.0 * torch.rand_like(x) - 1.0, x), state.tau)
            state = state._replace(tau=tau)
        return self._act(inputs, state, sample_action_distribution)

    def _act(self, inputs: TimeStep, state: TaacState, pick: Callable[[Any], Tensor]) -> AlgStep:
        out = self._decide(inputs.observation, state.tau, pick, pick)
        b = out.b
        if self._max_repeat_steps is not None:
            b = torch.where(state.repeats >= self._max_repeat_steps, 1, b)
        tau = nest.map_structure(partial(torch.where, b.unsqueeze(-1) == 1), out.taus[1], out.taus[0])
        new_state = TaacState(tau, torch.where(b == 1, 0, state.repeats + 1))
        info = TaacInfo(tau=tau, prev_tau=state.tau, rollout_b=b, repeats=new_state.repeats)
        return AlgStep(output=self._middle + self._half_range * tau.a, state=new_state, info=info)

    def _decide(
        self, observation: Nest, tau: Tau, pick_action: Callable[[Any], Tensor], pick_switch: Callable[[Any], Tensor]
    ) -> ActPredOutput:
        """Both stages of the policy, after the course `tau`."""
        action_distribution, _ = self._actor_network((observation, tau.flat()), ())
        action = pick_action(action_distribution)
        repeated, new = self._trajectory.go_on(tau), self._trajectory.begin(action, tau)
        with torch.no_grad():
            repeated_value = self._value(observation, repeated)
        values = torch.stack([repeated_value, self._value(observation, new)], -1)
        switch = self._switch(values)
        return ActPredOutput(
            Distributions(switch, action_distribution), pick_switch(switch), action, (repeated, new), values
        )

    def _switch(self, values: Tensor) -> Categorical:
        """beta(b) proportional to exp(Q(s, tau_b) / alpha_0), from [B, 2]."""
        advantage = (values[:, 1] - values[:, 0]).detach()
        if self._b1_advantage_clipping is not None:
            advantage = advantage.clamp(*self._b1_advantage_clipping)
        scaled = advantage / self._alpha()[0]
        return Categorical(logits=torch.stack([torch.zeros_like(scaled), scaled], -1))

    def summarize_rollout(
        self, experience: Experience, custom_summary: Callable[[Experience], None] | None = None
    ) -> None:
        """Writes how often courses are repeated, besides what others write."""
        super().summarize_rollout(experience, custom_summary)
        summary.scalar(f"{self._name}/rollout_repeats", experience.rollout_info.repeats.float().mean())

    # Learning.

    def learn(self, steps: Steps, inputs: TimeStep, state: Nest, rollout_info: TaacInfo) -> AlgStep:
        """Policy, values and losses."""
        out = self._sample(*steps.take((inputs, rollout_info), steps.every))
        critics = self._taken_values(*steps.take((inputs, rollout_info), steps.before_last))
        following = steps.select((out.taus, out.dists.beta_dist), steps.every, steps.after_first)
        target_critic = self._target_values(steps.take(inputs, steps.after_first), *following)
        rollout_info, reward, step_type, discount = steps.turn(
            (rollout_info, inputs.reward, inputs.step_type, inputs.discount)
        )
        info = rollout_info._replace(
            reward=reward,
            step_type=step_type,
            discount=discount,
            action_distribution=steps.put(out.dists, steps.every),
            b=steps.put(out.b, steps.every),
            critic=TaacCriticInfo(steps.put(critics, steps.before_last), steps.put(target_critic, steps.after_first)),
            **steps.put(self._policy_losses(out), steps.every),
        )
        return AlgStep(output=out.actor_a, info=info)

    def _sample(self, inputs: TimeStep, rollout_info: TaacInfo) -> ActPredOutput:
        """Both stages of the current policy, after the course that the rollout had."""
        return self._decide(
            inputs.observation, rollout_info.prev_tau, lambda d: d.rsample(), sample_action_distribution
        )

    def _policy_losses(self, out: ActPredOutput) -> dict[str, Any]:
        """`actor` and `alpha` of `TaacInfo`."""
        beta = out.dists.beta_dist
        log_pi = out.dists.b1_a_dist.log_prob(out.actor_a)
        entropies = torch.stack([beta.entropy(), -log_pi.detach()], -1)
        ascent = beta.probs[:, 1] * action_gradient_loss(out.q_values2[:, 1], out.actor_a)
        extra = TaacActorInfo(
            actor_loss=ascent.detach(),
            b1_a_entropy=entropies[:, 1],
            beta_entropy=entropies[:, 0],
            adv=(out.q_values2[:, 1] - out.q_values2[:, 0]).detach(),
        )
        return {
            "actor": LossInfo(loss=ascent + self._alpha()[1] * log_pi, extra=extra),
            "alpha": (self._log_alpha * (entropies - self._target_entropy)).sum(-1),
        }

    def _taken_values(self, inputs: TimeStep, rollout_info: TaacInfo) -> Tensor:
        """Q_i(s_t, tau_t) of the stored course, [B, n, ...]."""
        return self._critics((inputs.observation, rollout_info.tau.flat()))[0]

    @torch.no_grad()
    def _target_values(self, inputs: TimeStep, taus: tuple[Tau, Tau], beta: Categorical) -> Tensor:
        """V(s) = sum_b beta_b min_i Q'_i(s, tau_b), [B, ...]."""
        each = [
            pessimistic(self._target_critics((inputs.observation, tau.flat()))[0], self._reward_weights) for tau in taus
        ]
        shares = [nest.expand_dims_as(share, each[0]) for share in beta.probs.unbind(-1)]
        return shares[0] * each[0] + shares[1] * each[1]

    def calc_loss(self, info: TaacInfo) -> LossInfo:
        """The sum of the losses of actor, critics and temperatures."""
        critics, target = info.critic.critics, info.critic.target_critic
        losses = [loss(info, critics[:, :, i], target).loss for i, loss in enumerate(self._critic_losses)]
        critic = torch.stack(losses).sum(0)
        extra = TaacLossInfo(info.actor.extra, critic / len(losses), info.alpha)
        return LossInfo(loss=info.actor.loss + critic + info.alpha, extra=extra)

    def after_update(self, root_inputs: Nest, info: Nest) -> None:
        """Moves the target critics."""
        keep_target_statistics(self._critic_losses, info, lambda info: (info, info.critic.target_critic))
        self._target_updater()

    # Values.

    def _alpha(self) -> Tensor:
        """The temperatures of switch and action, [2], without gradient."""
        return self._log_alpha.detach().exp()

    def _value(self, observation: Nest, tau: Tau) -> Tensor:
        """min_i Q_i(s, tau) as one number, [B]."""
        q, _ = self._critics((observation, tau.flat()))
        return self._critics.weighted(pessimistic(q, self._reward_weights), self._reward_weights)

    def _trainable_attributes_to_ignore(self) -> list[str]:
        return ["_target_critics"]


@configurable
class TaacAlgorithm(TaacAlgorithmBase):
    """TAAC: repeats the action."""

    is_compilable = True

    def __init__(self, name: str = "TaacAlgorithm", *args: Any, **kwargs: Any) -> None:
        """Makes the algorithm.

        Args:
            name: name in summaries.
            *args: see `TaacAlgorithmBase`, as for `kwargs`.
            **kwargs: by name.
        """
        kwargs.update(name=name, trajectory=ConstantTrajectory())
        super().__init__(*args, **kwargs)


@configurable
class TaacLAlgorithm(TaacAlgorithmBase):
    """TaacL: goes on along a straight line of actions."""

    is_compilable = True

    def __init__(self, name: str = "TaacLAlgorithm", inverse_mode: bool = True, *args: Any, **kwargs: Any) -> None:
        """Makes the algorithm.

        Args:
            name: name in summaries.
            inverse_mode: the actor samples the new action, and the speed follows; otherwise it samples the speed.
            *args: see `TaacAlgorithmBase`, as for `kwargs`.
            **kwargs: by name.
        """
        kwargs.update(name=name, trajectory=LinearTrajectory(inverse_mode))
        super().__init__(*args, **kwargs)


@configurable
class TaacQAlgorithm(TaacAlgorithmBase):
    """TaacQ: goes on along a parabola of actions."""

    is_compilable = True

    def __init__(self, name: str = "TaacQAlgorithm", inverse_mode: bool = True, *args: Any, **kwargs: Any) -> None:
        """Makes the algorithm.

        Args:
            name: name in summaries.
            inverse_mode: the actor samples the new action, and speed and acceleration follow; otherwise it samples the
                acceleration. Either way the speed starts from 0.
            *args: see `TaacAlgorithmBase`, as for `kwargs`.
            **kwargs: by name.
        """
        kwargs.update(name=name, trajectory=QuadraticTrajectory(inverse_mode))
        super().__init__(*args, **kwargs)


def _for_all(processors: Nest, observation_spec: Nest) -> Nest:
    """A nest of processors, from one for all parts or a nest."""
    if nest.is_nested(processors) or not nest.is_nested(observation_spec):
        return processors
    return nest.map_structure(lambda _: processors, observation_spec)
