"""Deep deterministic policy gradient (Lillicrap et al. 2016, arXiv:1509.02971) as a learner.

    critic: y = r + gamma^n (1 - done') Q'(s', mu'(s')),  minimise 1/2 mean w (y - Q(s, a))^2
    policy: maximise mean w Q(s, mu(s))

Neither loss sees exploration noise. There is one critic, so `compute_loss_q` gives 0 as the loss of the second.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from rein.learners.base import NO_ADDONS, Learner, factory


class DDPG(Learner):
    """Deep deterministic policy gradient."""

    def __init__(
        self,
        device: torch.device | str,
        envs: Any,
        actor: Any,
        lr_q: float = 0.0001,
        lr_pi: float = 0.0001,
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
        """Makes the learner.

        Args:
            device: where losses are computed.
            envs: environments of the actor; not used.
            actor: see `rein.learners.base`.
            lr_q: learning rate of the critics.
            lr_pi: learning rate of the policy.
            gamma: discount factor.
            polyak: how much of the targets stays at each of their updates.
            num_updates: updates in a row, from one fragment of data.
            update_every: environment steps from one fragment to the next.
            test_every: updates between tests.
            max_grad_norm: of each group of parameters.
            start_steps: random environment steps before anything is learnt.
            mini_batch_size: rows per update.
            num_test_episodes: episodes of each test.
            target_update_interval: updates between those of the targets.
            policy_loss_addons: adds terms to the loss of the policy; one, or a list.
        """
        super().__init__(
            device,
            envs,
            actor,
            gamma=gamma,
            polyak=polyak,
            num_updates=num_updates,
            update_every=update_every,
            test_every=test_every,
            max_grad_norm=max_grad_norm,
            start_steps=start_steps,
            mini_batch_size=mini_batch_size,
            num_test_episodes=num_test_episodes,
            target_update_interval=target_update_interval,
            policy_loss_addons=policy_loss_addons,
        )
        self._add_adam("q_grads", self._critic_parameters, lr_q)
        self._add_adam("pi_grads", list(self.actor.policy_net.parameters()), lr_pi)

    @classmethod
    def create_factory(
        cls,
        lr_q: float = 0.001,
        lr_pi: float = 0.0001,
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
        rows = self._rows(data, per_weights)
        (q,) = self._q_scores(self.actor, rows.now, rows.action)
        with torch.no_grad():
            action = self.actor_targets.get_action(*rows.next, deterministic=True)[0]
            (following,) = self._q_scores(self.actor_targets, rows.next, action)
        errors = q - self._targets(rows, n_step, following)
        loss = 0.5 * (rows.weights * errors.square()).mean()
        return loss, torch.zeros_like(loss), loss, errors.abs()

    def compute_loss_pi(self, data: Mapping[str, Any], per_weights: Any = 1) -> Tensor:
        """The loss of the policy.

        Args:
            data: see `rein.learners.batches`.
            per_weights: [B, 1] importance weights, or a number.
        """
        return self._loss_pi(data, per_weights)[0]

    def _loss_pi(self, data: Mapping[str, Any], per_weights: Any) -> tuple[Tensor, dict[str, Any]]:
        rows = self._rows(data, per_weights)
        action, *_, dist = self.actor.get_action(*rows.now, deterministic=True)
        q = self._q_scores(self.actor, rows.now, action)[0]
        return self._addon_terms(data, dist, -(rows.weights * q).mean())

    def _losses(
        self, batch: Mapping[str, Any], n_step: float, per_weights: Any
    ) -> tuple[dict[str, Tensor], dict[str, Any], Tensor]:
        _, _, loss_q, errors = self.compute_loss_q(batch, n_step, per_weights)
        loss_pi, info = self._loss_pi(batch, per_weights)
        info = {**info, "loss_q1": loss_q.item(), "loss_pi": loss_pi.item()}
        return {"q_grads": loss_q, "pi_grads": loss_pi}, info, errors
