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

from rein.learners.base import NO_ADDONS, Learner, factory
from rein.learners.batches import View

_TARGET_NOISE, _TARGET_NOISE_LIMIT = 0.2, 0.5


class TD3(Learner):
    """Twin delayed deep deterministic policy gradient."""

    critic_names = ("q1", "q2")

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
        self._low, self._high = (
            torch.tensor(bound, dtype=torch.float32, device=self.device)
            for bound in (actor.action_space.low, actor.action_space.high)
        )
        self._last_loss_pi = 0.0
        self._add_adam("q_grads", self._critic_parameters, lr_q)
        self._add_adam("pi_grads", list(self.actor.policy_net.parameters()), lr_pi)

    @classmethod
    def create_factory(
        cls,
        lr_q: float = 0.0001,
        lr_pi: float = 0.0001,
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
        rows = self._rows(data, per_weights)
        q1, q2 = self._q_scores(self.actor, rows.now, rows.action)
        with torch.no_grad():
            following = torch.minimum(*self._q_scores(self.actor_targets, rows.next, self._target_action(rows.next)))
        target = self._targets(rows, n_step, following)
        loss_q1, loss_q2 = ((rows.weights * (q - target).square()).mean() for q in (q1, q2))
        return loss_q1, loss_q2, 0.5 * (loss_q1 + loss_q2), (torch.minimum(q1, q2) - target).abs()

    def _target_action(self, view: View) -> Tensor:
        """mu'(s') with noise of its own for each element, within the bounds."""
        action = self.actor_targets.get_action(*view, deterministic=True)[0]
        noise = (torch.randn_like(action) * _TARGET_NOISE).clamp(-_TARGET_NOISE_LIMIT, _TARGET_NOISE_LIMIT)
        return (action + 0.5 * (self._high - self._low) * noise).clamp(self._low, self._high)

    def compute_loss_pi(self, data: Mapping[str, Any], per_weights: Any = 1) -> Tensor:
        """The loss of the policy, by the first critic.

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

    @property
    def _is_policy_due(self) -> bool:
        return self.iter % self.target_update_interval == 0

    def _losses(
        self, batch: Mapping[str, Any], n_step: float, per_weights: Any
    ) -> tuple[dict[str, Tensor], dict[str, Any], Tensor]:
        loss_q1, loss_q2, loss_q, errors = self.compute_loss_q(batch, n_step, per_weights)
        losses = {"q_grads": loss_q}
        info: dict[str, Any] = {}
        if self._is_policy_due:
            losses["pi_grads"], info = self._loss_pi(batch, per_weights)
            self._last_loss_pi = losses["pi_grads"].item()
        return (
            losses,
            {**info, "loss_q1": loss_q1.item(), "loss_q2": loss_q2.item(), "loss_pi": self._last_loss_pi},
            errors,
        )

    def _after_update(self) -> None:
        """Moves the targets in the updates that move the policy, then counts."""
        if self._is_policy_due:
            self._move_targets()
        self.iter += 1
