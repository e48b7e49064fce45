"""Optimistic actor-critic (Ciosek et al. 2019, "Better Exploration with Optimistic Actor-Critic", arXiv:1910.12807).

SAC that explores by another policy. With the policy N(mu, Sigma) before squashing, and mean and deviation of the critics,

    Q_UB(s, a) = mean_i Q_i(s, a) + beta_UB std_i Q_i(s, a)
    mu_E       = mu + sqrt(2 delta) Sigma g / ||g||_Sigma,   g = dQ_UB/dmu

where ||g||_Sigma = sqrt(g^T Sigma g): of all policies within the KL divergence delta, the one that is best by the upper
bound (proposition 1 of the paper). The gradient is taken at the mean. The norm is taken over all continuous actions together.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rein import nest
from rein.algorithms.off_policy.sac import SacAlgorithm
from rein.algorithms.off_policy.sac_heads import Policy, split_action_spec
from rein.algorithms.off_policy.sac_settings import TargetEntropies
from rein.algorithms.off_policy.sac_structures import SacActionState
from rein.config import configurable
from rein.data_structures import TimeStep
from rein.distributions import get_mode, sample_action_distribution
from rein.distributions.base import LocationScale
from rein.envs import Environment
from rein.framework.acting.quick_rollout import QuickActor
from rein.framework.trainer_config import TrainerConfig
from rein.nest import Nest
from rein.networks import ActorDistributionNetwork, CriticNetwork, Network, QNetwork
from rein.specs import TensorSpec

_SMALLEST_NORM = 1e-6


@configurable
class OacAlgorithm(SacAlgorithm):
    """Soft actor-critic that explores where the critics disagree."""

    is_compilable = True

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        reward_spec: TensorSpec = TensorSpec(()),
        actor_network_cls: Callable[..., Network] = ActorDistributionNetwork,
        critic_network_cls: Callable[..., Network] | None = CriticNetwork,
        q_network_cls: Callable[..., Network] = QNetwork,
        epsilon_greedy: float | None = None,
        use_entropy_reward: bool = True,
        calculate_priority: bool = False,
        num_critic_replicas: int = 2,
        env: Environment | None = None,
        config: TrainerConfig | None = None,
        critic_loss_ctor: Callable[..., Any] | None = None,
        target_entropy: TargetEntropies = None,
        prior_actor_ctor: Callable[..., Any] | None = None,
        target_kld_per_dim: float = 3.0,
        initial_log_alpha: float = 0.0,
        explore: bool = True,
        explore_delta: float = 6.8,
        beta_ub: float = 4.6,
        max_log_alpha: float | None = None,
        target_update_tau: float = 0.05,
        target_update_period: int = 1,
        dqda_clipping: float | None = None,
        actor_optimizer: Any | None = None,
        critic_optimizer: Any | None = None,
        alpha_optimizer: Any | None = None,
        checkpoint: str | None = None,
        debug_summaries: bool = False,
        name: str = "OacAlgorithm",
        one_transition: bool = False,
    ) -> None:
        """Makes the algorithm; see `SacAlgorithm` for what is not listed.

        Args:
            observation_spec: specs of the observation.
            action_spec: bounded specs of continuous actions; those of `SacAlgorithm` without `explore`.
            reward_spec: a scalar, or a vector whose sum counts for exploration.
            actor_network_cls: see `SacAlgorithm`; its distributions must be normal, squashed or not.
            critic_network_cls: see `SacAlgorithm`.
            q_network_cls: see `SacAlgorithm`; only without `explore`.
            epsilon_greedy: see `SacAlgorithm`, as for the next two.
            use_entropy_reward: whether the values include the entropy of the policy.
            calculate_priority: see `SacAlgorithm`.
            num_critic_replicas: number of critics; at least 2 to `explore`.
            env: batched environment; for the root algorithm only.
            config: settings of the run; for the root algorithm only.
            critic_loss_ctor: see `SacAlgorithm`, as for the next four.
            target_entropy: see `SacAlgorithm`.
            prior_actor_ctor: see `SacAlgorithm`.
            target_kld_per_dim: see `SacAlgorithm`.
            initial_log_alpha: log of the temperature at the start.
            explore: False makes it the same as SAC.
            explore_delta: delta, the KL divergence in nats that the exploration policy may have from the policy.
            beta_ub: beta_UB, how optimistic the upper bound is, in deviations of the critics.
            max_log_alpha: upper limit of the log of the temperature.
            target_update_tau: how far target critics move at each update of them.
            target_update_period: gradient updates between updates of the target critics.
            dqda_clipping: limit of each element of dQ/da in the actor loss.
            actor_optimizer: for the actor.
            critic_optimizer: for the critics.
            alpha_optimizer: for the temperature.
            checkpoint: ``"prefix@path"`` to load the parameters from.
            debug_summaries: write more summaries.
            name: name in summaries.
            one_transition: see `SacAlgorithm`.
        """
        if explore and split_action_spec(action_spec, name).discrete != ():
            raise ValueError(f"{name}: explores continuous actions only, got {action_spec}: set explore=False")
        if explore and num_critic_replicas < 2:
            raise ValueError(
                f"{name}: num_critic_replicas is {num_critic_replicas}: at least 2 are needed to disagree, or explore=False"
            )
        if explore_delta < 0.0:
            raise ValueError(f"{name}: explore_delta is {explore_delta}: a divergence is not negative")
        super().__init__(
            observation_spec,
            action_spec,
            reward_spec,
            actor_network_cls=actor_network_cls,
            critic_network_cls=critic_network_cls,
            q_network_cls=q_network_cls,
            epsilon_greedy=epsilon_greedy,
            use_entropy_reward=use_entropy_reward,
            calculate_priority=calculate_priority,
            num_critic_replicas=num_critic_replicas,
            env=env,
            config=config,
            critic_loss_ctor=critic_loss_ctor,
            target_entropy=target_entropy,
            prior_actor_ctor=prior_actor_ctor,
            target_kld_per_dim=target_kld_per_dim,
            initial_log_alpha=initial_log_alpha,
            max_log_alpha=max_log_alpha,
            target_update_tau=target_update_tau,
            target_update_period=target_update_period,
            dqda_clipping=dqda_clipping,
            actor_optimizer=actor_optimizer,
            critic_optimizer=critic_optimizer,
            alpha_optimizer=alpha_optimizer,
            checkpoint=checkpoint,
            debug_summaries=debug_summaries,
            name=name,
            one_transition=one_transition,
        )
        if explore and self._critic_networks is not None and self._critic_networks.is_rnn:
            raise ValueError(f"{name}: explores by critics without memory: use a CriticNetwork, or set explore=False")
        self._is_optimistic = explore
        self._explore_delta = explore_delta
        self._beta_ub = beta_ub

    def quick_actor(self) -> QuickActor | None:
        """None where it explores: the gradient of the critics is needed at every step."""
        return None if self._is_optimistic else super().quick_actor()

    def _explore(self, inputs: TimeStep, state: SacActionState) -> Policy:
        """A sample of the exploration policy."""
        policy = super()._explore(inputs, state)
        if not self._is_optimistic:
            return policy
        distribution = self._optimistic(self._encode(inputs.observation), policy.distribution)
        return policy._replace(action=sample_action_distribution(distribution), distribution=distribution)

    def _optimistic(self, observation: Nest, distribution: Nest) -> Nest:
        """The policy with the mean mu_E."""
        leaves = nest.flatten(distribution)
        for leaf in leaves:
            if not isinstance(leaf, LocationScale):
                raise TypeError(f"{self.name}: shifts means of normal distributions, but the actor gives {leaf!r}")
        with torch.enable_grad():
            means = [leaf.loc.detach().requires_grad_() for leaf in leaves]
            movable = nest.pack_sequence_as(distribution, map(_with_mean, leaves, means))
            upper_bound = self._upper_bound(observation, get_mode(movable))
            gradients = torch.autograd.grad(upper_bound.sum(), means)
        spread = [gradient * leaf.scale.square() for gradient, leaf in zip(gradients, leaves, strict=True)]
        squares = [(g * s).flatten(1).sum(1) for g, s in zip(gradients, spread, strict=True)]
        norm = torch.stack(squares).sum(0).sqrt().clamp_min(_SMALLEST_NORM)
        step = math.sqrt(2.0 * self._explore_delta) / norm
        shifted = [
            _with_mean(leaf, leaf.loc + nest.expand_dims_as(step, direction) * direction)
            for leaf, direction in zip(leaves, spread, strict=True)
        ]
        return nest.pack_sequence_as(distribution, shifted)

    def _upper_bound(self, observation: Nest, action: Nest) -> Tensor:
        """Q_UB(s, a), [B]."""
        q, _ = self._q(self._critic_networks, self._head.critic_input(observation, action), ())
        q = self._weighted(q)
        return q.mean(1) + self._beta_ub * q.std(1, unbiased=False)


def _with_mean(distribution: LocationScale, mean: Tensor) -> LocationScale:
    """The same distribution around another mean before squashing."""
    return distribution.from_params({"loc": mean, "scale": distribution.scale}, distribution.settings)
