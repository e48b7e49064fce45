"""Deep deterministic policy gradient (Lillicrap et al. 2016, arXiv:1509.02971).

With the policy mu, its target mu', the critic Q and its target Q':

    critic:  y = r + gamma Q'(s', mu'(s')),  minimise (y - Q(s, a))^2                                       (eq. 4, 5)
    actor:   maximise Q(s, mu(s)); its gradient is dQ/da dmu/dtheta                                            (eq. 6)
    targets: theta' <- tau theta + (1 - tau) theta'                                                  (algorithm 1)
    explore: mu(s) + an Ornstein-Uhlenbeck process, clipped to the bounds                                      (eq. 7)

Beyond the paper: several critics, of which targets and actor take the lowest; large actions may be punished (as for hindsight
replay, Andrychowicz et al. 2017, appendix A); and what `deterministic_actor_critic.py` lists.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from rein import nest
from rein.algorithms.off_policy.continuous_actions import OrnsteinUhlenbeckNoise
from rein.algorithms.off_policy.deterministic_actor_critic import (
    DdpgActorState,
    DdpgCriticInfo,
    DdpgCriticState,
    DdpgInfo,
    DdpgLossInfo,
    DdpgState,
    DeterministicActorCritic,
)
from rein.config import configurable
from rein.envs import Environment
from rein.framework.trainer_config import TrainerConfig
from rein.nest import Nest
from rein.networks import ActorNetwork, CriticNetwork, Network
from rein.runtime.schedules import Scheduler
from rein.specs import TensorSpec

__all__ = [
    "DdpgActorState",
    "DdpgAlgorithm",
    "DdpgCriticInfo",
    "DdpgCriticState",
    "DdpgInfo",
    "DdpgLossInfo",
    "DdpgState",
]


@configurable
class DdpgAlgorithm(DeterministicActorCritic):
    """Deep deterministic policy gradient, for continuous actions."""

    is_compilable = True

    def __init__(
        self,
        observation_spec: Nest,
        action_spec: Nest,
        reward_spec: TensorSpec = TensorSpec(()),
        actor_network_ctor: Callable[..., Network] = ActorNetwork,
        critic_network_ctor: Callable[..., Network] = CriticNetwork,
        reward_weights: Sequence[float] | None = None,
        epsilon_greedy: float | None = None,
        calculate_priority: bool = False,
        env: Environment | None = None,
        config: TrainerConfig | None = None,
        ou_stddev: float | Scheduler = 0.2,
        ou_damping: float | Scheduler = 0.15,
        critic_loss_ctor: Callable[..., Any] | None = None,
        num_critic_replicas: int = 1,
        target_update_tau: float | Scheduler = 0.05,
        target_update_period: int = 1,
        rollout_random_action: float | Scheduler = 0.0,
        dqda_clipping: float | None = None,
        action_l2: float = 0,
        actor_optimizer: Any | None = None,
        critic_optimizer: Any | None = None,
        checkpoint: str | None = None,
        debug_summaries: bool = False,
        name: str = "DdpgAlgorithm",
        one_transition: bool = False,
    ) -> None:
        """Makes the algorithm.

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
            ou_stddev: standard deviation of each increment of the exploration noise, in units of the action.
            ou_damping: share of the exploration noise that is lost at each step.
            critic_loss_ctor: called as `ctor(debug_summaries=)`; None is `OneStepTDLoss`.
            num_critic_replicas: critics; with several, the lowest counts.
            target_update_tau: how far targets move at each update of theirs.
            target_update_period: gradient updates from one update of the targets to the next.
            rollout_random_action: chance of a uniformly random action in a rollout step.
            dqda_clipping: largest absolute value of each element of dQ/da; None or 0 does not clip.
            action_l2: weight of the squared norm of the action in the actor's loss.
            actor_optimizer: of the actor; None leaves it to the parent.
            critic_optimizer: of the critics; None leaves them to the parent.
            checkpoint: ``"prefix@path"`` to load the parameters from.
            debug_summaries: write more summaries.
            name: name in summaries.
            one_transition: learn from the first step of sequences of two only, at half the cost.
        """
        super().__init__(
            observation_spec,
            action_spec,
            reward_spec,
            actor_network_ctor=actor_network_ctor,
            critic_network_ctor=critic_network_ctor,
            reward_weights=reward_weights,
            epsilon_greedy=epsilon_greedy,
            calculate_priority=calculate_priority,
            env=env,
            config=config,
            critic_loss_ctor=critic_loss_ctor,
            num_critic_replicas=num_critic_replicas,
            target_update_tau=target_update_tau,
            target_update_period=target_update_period,
            rollout_random_action=rollout_random_action,
            dqda_clipping=dqda_clipping,
            actor_optimizer=actor_optimizer,
            critic_optimizer=critic_optimizer,
            checkpoint=checkpoint,
            debug_summaries=debug_summaries,
            name=name,
            one_transition=one_transition,
            is_noise_kept=True,
        )
        self._noise = OrnsteinUhlenbeckNoise(ou_stddev, ou_damping)
        self._action_l2 = action_l2

    def _draw_noise(self, num_rows: int) -> Nest:
        """Equation 7: the increments of the process, for actions [num_rows, ...]."""
        return self._noise.increments(nest.map_structure(lambda spec: spec.zeros((num_rows,)), self._action_spec))

    def _noise_kept(self) -> Callable[[], float]:
        """Equation 7: what damping leaves of the process."""
        return self._noise.keep

    def _actor_loss(self, value: Tensor, action: Nest) -> Tensor:
        """Equation 6, and the punishment of large actions."""
        loss = super()._actor_loss(value, action)
        if self._action_l2 > 0:
            squares = [leaf.square().flatten(1).sum(1) for leaf in nest.flatten(action)]
            loss = loss + self._action_l2 * torch.stack(squares).sum(0)
        return loss
