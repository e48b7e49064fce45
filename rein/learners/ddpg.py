"""Deep deterministic policy gradient (Lillicrap et al. 2016, arXiv:1509.02971) as a learner.

    critic: y = r + gamma^n (1 - done') Q'(s', mu'(s')),  minimise 1/2 mean w (y - Q(s, a))^2
    policy: maximise mean w Q(s, mu(s))

Neither loss sees exploration noise. There is one critic, so `compute_loss_q` gives 0 as the loss of the second.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from rein.algorithms.off_policy.ddpg import DdpgAlgorithm
from rein.algorithms.off_policy.deterministic_actor_critic import DdpgInfo
from rein.learners.base import Learner
from rein.learners.factories import NO_ADDONS, factory, shared
from rein.runtime.schedules import Changing


class DDPG(Learner):
    """Deep deterministic policy gradient."""

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

        Besides: `lr_q` and `lr_pi`, the learning rates of critic and policy.
        """
        super().__init__(device, envs, actor, **shared(locals()))
        self.algorithm = self._build(
            DdpgAlgorithm,
            actor_network_ctor=self._a_policy,
            critic_network_ctor=self._some_critics,
            num_critic_replicas=1,
            one_transition=True,
        )
        self._add_adam("q_grads", self._critic_parameters, lr_q)
        self._add_adam("pi_grads", list(self.actor.policy_net.parameters()), lr_pi)

    @classmethod
    def create_factory(
        cls,
        lr_q: Changing = 0.001,
        lr_pi: Changing = 0.0001,
        gamma: float = 0.99,
        polyak: float = 0.995,
        num_updates: int = 50,
        test_every: int = 5000,
        update_every: int = 50,
        start_steps: int = 1000,
        max_grad_norm: float = 0.5,
        mini_batch_size: int = 64,
        num_test_episodes: int = 5,
        target_update_interval: float = 1.0,
        policy_loss_addons: Any = NO_ADDONS,
    ) -> tuple[Callable[..., Any], str]:
        """Returns what makes learners, called as `make(device, actor, envs)`, and their name; see the constructor."""
        return factory(cls, locals())

    def compute_loss_q(
        self, data: Mapping[str, Any], n_step: float = 1, per_weights: Any = 1
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The loss of the critic, 0, the loss of the critic again, and the absolute TD errors [B, 1].

        Args:
            data: see `rein.learners.batches`.
            n_step: steps that the rewards of the batch sum up.
            per_weights: [B, 1] importance weights, or a number.
        """
        return self._loss_q(*self._learn(data, n_step, per_weights))

    def _loss_q(self, info: Any, weights: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        (squares,), errors = self._td_errors(
            [self.algorithm._critic_loss], info, info.critic.q_values, info.critic.target_q_values
        )
        loss = 0.5 * (weights * squares).mean()
        return loss, torch.zeros_like(loss), loss, errors.abs()

    def compute_loss_pi(self, data: Mapping[str, Any], per_weights: Any = 1) -> Tensor:
        """The loss of the policy.

        Args:
            data: see `rein.learners.batches`.
            per_weights: [B, 1] importance weights, or a number.
        """
        return self._loss_pi(data, *self._learn(data, 1, per_weights))[0]

    def _loss_pi(self, data: Mapping[str, Any], info: Any, weights: Any) -> tuple[Tensor, dict[str, Any]]:
        loss = (weights * info.actor_loss[0].unsqueeze(-1)).mean()
        return self._with_addons(data, self._last_distribution, loss)

    def _losses(
        self, batch: Mapping[str, Any], n_step: float, per_weights: Any
    ) -> tuple[dict[str, Tensor], dict[str, Any], Tensor]:
        info, weights = self._learn(batch, n_step, per_weights)
        _, _, loss_q, errors = self._loss_q(info, weights)
        loss_pi, report = self._loss_pi(batch, info, weights)
        report = {**report, "loss_q1": loss_q.item(), "loss_pi": loss_pi.item()}
        return {"q_grads": loss_q, "pi_grads": loss_pi}, report, errors
