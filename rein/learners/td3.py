"""Twin delayed deep deterministic policy gradient (Fujimoto et al. 2018, arXiv:1802.09477) as a learner.

    critics: a' = mu'(s') + clip(noise, -c, c),  y = r + gamma^n (1 - done') min_i Q'_i(s', a'),
             minimise 1/2 sum_i mean w (y - Q_i(s, a))^2
    policy:  maximise mean w Q_1(s, mu(s)), in one of every d updates, with which the targets move

d is `target_update_interval`, and the first update moves all. The noise has a deviation of 0.2 and c is 0.5, both as a share
of half of the range of each action.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from rein.algorithms.off_policy.deterministic_actor_critic import DdpgInfo
from rein.algorithms.off_policy.td3 import Td3Algorithm
from rein.learners.base import Learner
from rein.learners.factories import NO_ADDONS, factory, shared
from rein.runtime.schedules import Changing


class TD3(Learner):
    """Twin delayed deep deterministic policy gradient."""

    critic_names = ("q1", "q2")
    info_type = DdpgInfo

    def __init__(
        self,
        device: torch.device | str,
        envs: Any,
        actor: Any,
        lr_q: Changing = 0.0001,
        lr_pi: Changing = 0.0001,
        gamma: float = 0.99,
        polyak: float = 0.995,
        num_updates: int = 1,
        update_every: int = 50,
        test_every: int = 1000,
        max_grad_norm: float = 0.5,
        start_steps: int = 20000,
        mini_batch_size: int = 64,
        num_test_episodes: int = 5,
        target_update_interval: float = 1,
        policy_loss_addons: Any = NO_ADDONS,
    ) -> None:
        """Makes the learner; what all learners have is described at `rein.learners.base.Learner`.

        Besides: `lr_q` and `lr_pi`, the learning rates of critics and policy.
        """
        super().__init__(device, envs, actor, **shared(locals()))
        self.algorithm = self._build(
            Td3Algorithm,
            actor_network_ctor=self._a_policy,
            critic_network_ctor=self._some_critics,
            actor_update_period=2,
            one_transition=True,
        )
        self._last_loss_pi = 0.0
        self._add_adam("q_grads", self._critic_parameters, lr_q)
        self._add_adam("pi_grads", list(self.actor.policy_net.parameters()), lr_pi)

    @classmethod
    def create_factory(
        cls,
        lr_q: Changing = 0.0001,
        lr_pi: Changing = 0.0001,
        gamma: float = 0.99,
        polyak: float = 0.995,
        num_updates: int = 50,
        test_every: int = 5000,
        update_every: int = 50,
        start_steps: int = 1000,
        max_grad_norm: float = 0.5,
        mini_batch_size: int = 100,
        num_test_episodes: int = 5,
        target_update_interval: float = 1.0,
        policy_loss_addons: Any = NO_ADDONS,
    ) -> tuple[Callable[..., Any], str]:
        """Returns what makes learners, called as `make(device, actor, envs)`, and their name; see the constructor."""
        return factory(cls, locals())

    def compute_loss_q(
        self, data: Mapping[str, Any], n_step: float = 1, per_weights: Any = 1
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The losses of both critics, half of their sum, and the absolute TD errors of the lower one [B, 1].

        Args:
            data: see `rein.learners.batches`.
            n_step: steps that the rewards of the batch sum up.
            per_weights: [B, 1] importance weights, or a number.
        """
        return self._loss_q(*self._learn_td3(data, n_step, per_weights, with_policy=False))

    def _learn_td3(self, batch: Mapping[str, Any], n_step: float, weights: Any, with_policy: bool) -> tuple[Any, Any]:
        # The second of every two updates of the algorithm moves its policy.
        self.algorithm._num_updates.set(int(with_policy))
        return self._learn(batch, n_step, weights)

    def _loss_q(self, info: Any, weights: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        losses = [self.algorithm._critic_loss] * 2
        squares, errors = self._td_errors(losses, info, info.critic.q_values, info.critic.target_q_values)
        loss_q1, loss_q2 = ((weights * one).mean() for one in squares)
        return loss_q1, loss_q2, 0.5 * (loss_q1 + loss_q2), errors.min(-1, keepdim=True).values.abs()

    def compute_loss_pi(self, data: Mapping[str, Any], per_weights: Any = 1) -> Tensor:
        """The loss of the policy, by the first critic.

        Args:
            data: see `rein.learners.batches`.
            per_weights: [B, 1] importance weights, or a number.
        """
        return self._loss_pi(data, *self._learn_td3(data, 1, per_weights, with_policy=True))[0]

    def _loss_pi(self, data: Mapping[str, Any], info: Any, weights: Any) -> tuple[Tensor, dict[str, Any]]:
        loss = (weights * info.actor_loss[0].unsqueeze(-1)).mean()
        return self._with_addons(data, self._last_distribution, loss)

    @property
    def _is_policy_due(self) -> bool:
        return self.iter % self.target_update_interval == 0

    def _losses(
        self, batch: Mapping[str, Any], n_step: float, per_weights: Any
    ) -> tuple[dict[str, Tensor], dict[str, Any], Tensor]:
        info, weights = self._learn_td3(batch, n_step, per_weights, self._is_policy_due)
        loss_q1, loss_q2, loss_q, errors = self._loss_q(info, weights)
        losses, report = {"q_grads": loss_q}, dict[str, Any]()
        if self._is_policy_due:
            losses["pi_grads"], report = self._loss_pi(batch, info, weights)
            self._last_loss_pi = losses["pi_grads"].item()
        numbers = {"loss_q1": loss_q1.item(), "loss_q2": loss_q2.item(), "loss_pi": self._last_loss_pi}
        return losses, {**report, **numbers}, errors

    def _after_update(self) -> None:
        """Moves the targets in the updates that move the policy, then counts."""
        if self._is_policy_due:
            self._move_targets()
        self.iter += 1
