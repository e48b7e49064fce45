"""Quantile regression soft actor-critic.

SAC whose critics learn the distribution of the return by N quantiles Z_1..Z_N (Dabney et al. 2018, "Distributional
Reinforcement Learning with Quantile Regression", arXiv:1710.10044). The actor climbs their mean,

    Q(s, a) = 1/N sum_j min_i Z_ij(s, a),

and the targets are the quantiles of r + gamma d Z'(s', a'), compared pairwise by the quantile Huber loss. The pessimistic
minimum over critics is taken for each quantile, or is the critic with the lowest mean.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from rein.algorithms.losses import OneStepTDQRLoss
from rein.algorithms.losses.critics import Critics
from rein.algorithms.off_policy.sac import SacAlgorithm
from rein.algorithms.off_policy.sac_heads import ActionParts, split_action_spec
from rein.algorithms.off_policy.sac_settings import TargetEntropies
from rein.config import configurable
from rein.envs import Environment
from rein.framework.trainer_config import TrainerConfig
from rein.nest import Nest
from rein.networks import ActorDistributionNetwork, CriticNetwork, Network
from rein.specs import TensorSpec


@configurable
class QrsacAlgorithm(SacAlgorithm):
    """Soft actor-critic with distributional critics, for continuous actions."""

    is_compilable = True

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        reward_spec: TensorSpec = TensorSpec(()),
        actor_network_cls: Callable[..., Network] = ActorDistributionNetwork,
        critic_network_cls: Callable[..., Network] | None = CriticNetwork,
        epsilon_greedy: float | None = None,
        use_entropy_reward: bool = False,
        normalize_entropy_reward: bool = False,
        calculate_priority: bool = False,
        num_critic_replicas: int = 2,
        min_critic_by_critic_mean: bool = False,
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
        name: str = "QrsacAlgorithm",
        one_transition: bool = False,
    ) -> None:
        """Makes the algorithm; see `SacAlgorithm` for what is not listed.

        Args:
            observation_spec: specs of the observation.
            action_spec: bounded specs of continuous actions.
            reward_spec: a scalar, or a vector for several rewards, each with quantiles of its own.
            actor_network_cls: see `SacAlgorithm`.
            critic_network_cls: called as `cls(input_tensor_spec=, output_tensor_spec=)`; the output holds the quantiles,
                as many as the critic loss says. None leaves the critics out, for acting only.
            epsilon_greedy: see `SacAlgorithm`, as for the next three.
            use_entropy_reward: whether the values include the entropy of the policy.
            normalize_entropy_reward: see `SacAlgorithm`.
            calculate_priority: see `SacAlgorithm`.
            num_critic_replicas: number n of critics.
            min_critic_by_critic_mean: take the quantiles of the critic with the lowest mean, in the place of the lowest
                of each quantile.
            env: batched environment; for the root algorithm only.
            config: settings of the run; for the root algorithm only.
            critic_loss_ctor: a loss like `TDQRLoss`; None is `OneStepTDQRLoss`.
            target_entropy: see `SacAlgorithm`, as for all that follow.
            prior_actor_ctor: see `SacAlgorithm`.
            target_kld_per_dim: see `SacAlgorithm`.
            initial_log_alpha: log of the temperature at the start.
            max_log_alpha: upper limit of it.
            target_update_tau: how far target critics move at each update of them.
            target_update_period: gradient updates between updates of the target critics.
            dqda_clipping: limit of each element of dQ/da in the actor loss.
            actor_optimizer: for the actor.
            critic_optimizer: for the critics.
            alpha_optimizer: for the temperature.
            checkpoint: ``"prefix@path"`` to load the parameters from.
            debug_summaries: write more summaries.
            reproduce_locomotion: see `SacAlgorithm`.
            name: name in summaries.
            one_transition: see `SacAlgorithm`.
        """
        if split_action_spec(action_spec, name).discrete != ():
            raise ValueError(f"{name}: needs continuous actions only, got {action_spec}: use SacAlgorithm")
        loss_ctor = OneStepTDQRLoss if critic_loss_ctor is None else critic_loss_ctor
        if critic_network_cls is not None:
            quantiles = TensorSpec((loss_ctor().num_quantiles,))
            critic_network_cls = partial(critic_network_cls, output_tensor_spec=quantiles)
        super().__init__(
            observation_spec,
            action_spec,
            reward_spec,
            actor_network_cls=actor_network_cls,
            critic_network_cls=critic_network_cls,
            epsilon_greedy=epsilon_greedy,
            use_entropy_reward=use_entropy_reward,
            normalize_entropy_reward=normalize_entropy_reward,
            calculate_priority=calculate_priority,
            num_critic_replicas=num_critic_replicas,
            env=env,
            config=config,
            critic_loss_ctor=loss_ctor,
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
            reproduce_locomotion=reproduce_locomotion,
            name=name,
            one_transition=one_transition,
        )
        self._min_critic_by_critic_mean = min_critic_by_critic_mean

    def _make_critics(self, critic: Network, num_replicas: int, reward_spec: TensorSpec, parts: ActionParts) -> Critics:
        """The critics: quantiles [B, n, N] or [B, n, D, N]."""
        return Critics(critic, num_replicas, reward_spec, num_value_dims=1, is_reward_last=False)

    def _minimum(self, q: Tensor) -> Tensor:
        """Pessimistic quantiles, [B, N] or [B, D, N] from [B, n, ...]; of a reward with negative weight the highest."""
        if self._reward_weights is not None:
            sign = self._reward_weights.sign().unsqueeze(-1)
            return self._lowest(q * sign) * sign
        return self._lowest(q)

    def _lowest(self, q: Tensor) -> Tensor:
        """By quantile, or those of the critic with the lowest mean."""
        if not self._min_critic_by_critic_mean:
            return q.amin(1)
        lowest = q.mean(-1, keepdim=True).argmin(1, keepdim=True)
        return torch.take_along_dim(q, lowest, 1).squeeze(1)

    def _weighted(self, q: Tensor) -> Tensor:
        """The mean of the quantiles, [B], summed over the rewards."""
        return super()._weighted(q.mean(-1))
