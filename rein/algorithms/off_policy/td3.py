"""Twin delayed deep deterministic policy gradient (Fujimoto et al. 2018, arXiv:1802.09477).

Deterministic policy gradients with three changes against overestimated values, with pi the policy, pi' and Q' the targets:

    target policy smoothing:  a~ = clip(pi'(s') + clip(N(0, sigma~^2), -c, c), low, high)                     (eq. 14)
    clipped double Q:         y = r + gamma min_i Q'_i(s', a~),  minimise sum_i (y - Q_i(s, a))^2              (eq. 10)
    delayed updates:          every d-th update, move pi along dQ_1/da dpi/dphi, and then all targets         (section 5.2)
    explore:                  clip(pi(s) + N(0, sigma^2), low, high)                                       (algorithm 1)

sigma, sigma~ and c are shares of half of each action's range, so that they mean the same in every world. Beyond the paper:
more than two critics, and what `deterministic_actor_critic.py` lists. The actor's loss is not computed at all in the updates
that leave the actor alone.
"""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from rein import nest
from rein.algorithms.off_policy.deterministic_actor_critic import DeterministicActorCritic
from rein.config import configurable
from rein.envs import Environment
from rein.framework.trainer_config import TrainerConfig
from rein.nest import Nest
from rein.networks import ActorNetwork, CriticNetwork, Network
from rein.runtime.schedules import Scheduler, as_scheduler
from rein.specs import TensorSpec
from rein.statistics.host_scalar import HostScalar


@configurable
class Td3Algorithm(DeterministicActorCritic):
    """Twin delayed DDPG, for continuous actions."""

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
        critic_loss_ctor: Callable[..., Any] | None = None,
        num_critic_replicas: int = 2,
        target_update_tau: float | Scheduler = 0.005,
        actor_update_period: int = 2,
        rollout_noise: float | Scheduler = 0.1,
        rollout_random_action: float | Scheduler = 0.0,
        target_action_noise: float = 0.2,
        target_action_noise_limit: float = 0.5,
        dqda_clipping: float | None = None,
        actor_optimizer: Any | None = None,
        critic_optimizer: Any | None = None,
        checkpoint: str | None = None,
        debug_summaries: bool = False,
        name: str = "Td3Algorithm",
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
            critic_loss_ctor: called as `ctor(debug_summaries=)`; None is `OneStepTDLoss`.
            num_critic_replicas: critics; targets take the lowest.
            target_update_tau: how far targets move at each update of theirs.
            actor_update_period: gradient updates from one update of actor and targets to the next (d).
            rollout_noise: standard deviation of the exploration noise (sigma), as a share of half of the range.
            rollout_random_action: chance of a uniformly random action in a rollout step.
            target_action_noise: standard deviation of the noise on target actions (sigma~), as such a share.
            target_action_noise_limit: where that noise is cut off (c), as such a share.
            dqda_clipping: largest absolute value of each element of dQ/da; None or 0 does not clip.
            actor_optimizer: of the actor; None leaves it to the parent.
            critic_optimizer: of the critics; None leaves them to the parent.
            checkpoint: ``"prefix@path"`` to load the parameters from.
            debug_summaries: write more summaries.
            name: name in summaries.
            one_transition: learn from the first step of sequences of two only, at half the cost.
        """
        if actor_update_period < 1:
            raise ValueError(f"actor_update_period is {actor_update_period}: it must be at least 1 update")
        if target_action_noise < 0 or target_action_noise_limit < 0:
            raise ValueError(
                f"target_action_noise is {target_action_noise} and its limit {target_action_noise_limit}: neither may be "
                "negative"
            )
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
            target_update_period=actor_update_period,
            rollout_random_action=rollout_random_action,
            dqda_clipping=dqda_clipping,
            actor_optimizer=actor_optimizer,
            critic_optimizer=critic_optimizer,
            checkpoint=checkpoint,
            debug_summaries=debug_summaries,
            name=name,
            one_transition=one_transition,
            is_noise_kept=False,
        )
        self._actor_update_period = actor_update_period
        self._num_updates = HostScalar(0)
        self._rollout_noise = as_scheduler(rollout_noise)
        self._target_action_noise = target_action_noise
        self._target_action_noise_limit = target_action_noise_limit

    def _draw_noise(self, num_rows: int) -> Nest:
        """Algorithm 1: N(0, sigma^2), for actions [num_rows, ...]."""
        return self._actions.normal(num_rows, self._rollout_noise())

    # Learning.

    def update_form(self) -> bool:
        """Whether the actor learns too."""
        return self._updates_actor()

    def _updates_actor(self) -> bool:
        """Whether the update that is being prepared is one of every d that move actor and targets."""
        return (self._num_updates.get() + 1) % self._actor_update_period == 0

    def _climbed(self, values: Tensor) -> Tensor:
        """The value of the first critic."""
        return values[:, 0]

    def _smoothed(self, action: Nest) -> Nest:
        """Equation 14."""
        if self._target_action_noise <= 0:
            return action
        size = nest.get_nest_batch_size(action)
        return self._disturbed(
            action, self._actions.normal(size, self._target_action_noise, self._target_action_noise_limit)
        )

    def after_update(self, root_inputs: Nest, info: Nest) -> None:
        """Counts the update and, when their turn has come, moves the targets."""
        self._num_updates.set(self._num_updates.get() + 1)
        super().after_update(root_inputs, info)
