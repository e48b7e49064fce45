"""Soft actor-critic (Haarnoja et al. 2018, arXiv:1812.05905; discrete: Christodoulou 2019, arXiv:1910.07207) as a learner.

With a ~ pi(.|s) and a' ~ pi(.|s'):

    critics: y = r + gamma^n (1 - done') (min_i Q'_i(s', a') - alpha log pi(a'|s')),
             minimise 1/2 sum_i mean w (y - Q_i(s, a))^2
    policy:  minimise mean w (alpha log pi(a|s) - min_i Q_i(s, a))
    alpha:   minimise -mean w log alpha (log pi(a|s) + target entropy)

For a discrete action, means over all actions stand in the place of samples. The target entropy is minus the number of
actions, or 0.98 log n. The temperature is stepped with the gradients and travels with the weights.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from rein.learners.base import NO_ADDONS, Learner, factory, is_discrete
from rein.learners.batches import View


class SAC(Learner):
    """Soft actor-critic, for continuous actions or one discrete action."""

    critic_names = ("q1", "q2")

    def __init__(
        self,
        device: torch.device | str,
        envs: Any,
        actor: Any,
        lr_q: float = 0.0001,
        lr_pi: float = 0.0001,
        lr_alpha: float = 0.0001,
        gamma: float = 0.99,
        polyak: float = 0.995,
        num_updates: int = 1,
        update_every: int = 50,
        test_every: int = 1000,
        max_grad_norm: float = 0.5,
        initial_alpha: float = 1.0,
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
            lr_alpha: learning rate of the temperature.
            gamma: discount factor.
            polyak: how much of the targets stays at each of their updates.
            num_updates: updates in a row, from one fragment of data.
            update_every: environment steps from one fragment to the next.
            test_every: updates between tests.
            max_grad_norm: of each group of parameters.
            initial_alpha: temperature at the start.
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
        if initial_alpha <= 0:
            raise ValueError(f"initial_alpha is {initial_alpha}: a temperature is positive")
        space = actor.action_space
        self._discrete = is_discrete(space)
        self.target_entropy = 0.98 * math.log(space.n) if self._discrete else -float(math.prod(space.shape))
        self.log_alpha = Parameter(torch.tensor(math.log(initial_alpha), device=self.device))
        self._add_adam("q_grads", self._critic_parameters, lr_q)
        self._add_adam("pi_grads", list(self.actor.policy_net.parameters()), lr_pi)
        self._add_adam("alpha_grads", [self.log_alpha], lr_alpha)

    @classmethod
    def create_factory(
        cls,
        lr_q: float = 0.0001,
        lr_pi: float = 0.0001,
        lr_alpha: float = 0.0001,
        gamma: float = 0.99,
        polyak: float = 0.995,
        num_updates: int = 50,
        test_every: int = 5000,
        update_every: int = 50,
        start_steps: int = 1000,
        max_grad_norm: float = 0.5,
        initial_alpha: float = 1.0,
        mini_batch_size: int = 64,
        num_test_episodes: int = 5,
        target_update_interval: float = 1.0,
        policy_loss_addons: Any = NO_ADDONS,
    ) -> tuple[Callable[..., Any], str]:
        """Returns what makes learners, called as `make(device, actor, envs)`, and their name; see the constructor."""
        return factory(cls, locals())

    @property
    def discrete_version(self) -> bool:
        """Whether the action is discrete."""
        return self._discrete

    @property
    def alpha(self) -> Tensor:
        """The temperature, without gradient."""
        return self.log_alpha.detach().exp()

    def _policy_and_value(self, actor: Any, view: View) -> tuple[Tensor, Tensor, Any]:
        """Log pi [B, 1], the value of the policy by the lower critics of `actor` [B, 1], and its distribution."""
        action, _, logp, _, _, dist = self.actor.get_action(*view, deterministic=False)
        if not self._discrete:
            return logp.reshape(-1, 1), torch.minimum(*self._q_scores(actor, view, action)), dist
        probs = dist.probs
        log_probs = probs.clamp_min(torch.finfo(probs.dtype).tiny).log()
        values = torch.minimum(*self._q_scores(actor, view))
        return (probs * log_probs).sum(-1, keepdim=True), (probs * values).sum(-1, keepdim=True), dist

    def compute_loss_q(
        self, batch: Mapping[str, Any], n_step: float = 1, per_weights: Any = 1
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The losses of both critics, their mean, and the mean of their absolute TD errors [B, 1].

        Args:
            batch: see `rein.learners.batches`.
            n_step: steps that the rewards of the batch sum up.
            per_weights: [B, 1] importance weights, or a number.
        """
        rows = self._rows(batch, per_weights)
        with torch.no_grad():
            logp, value, _ = self._policy_and_value(self.actor_targets, rows.next)
        target = self._targets(rows, n_step, value - self.alpha * logp)
        if self._discrete:
            action = rows.action.long().reshape(-1, 1)
            q1, q2 = (q.gather(-1, action) for q in self._q_scores(self.actor, rows.now))
        else:
            q1, q2 = self._q_scores(self.actor, rows.now, rows.action)
        loss_q1, loss_q2 = ((rows.weights * (q - target).square()).mean() for q in (q1, q2))
        errors = 0.5 * ((q1 - target).abs() + (q2 - target).abs())
        return loss_q1, loss_q2, 0.5 * (loss_q1 + loss_q2), errors

    def compute_loss_pi(self, batch: Mapping[str, Any], per_weights: Any = 1) -> tuple[Tensor, Tensor]:
        """The loss of the policy, and log pi [B, 1]; of a discrete action its mean.

        Args:
            batch: see `rein.learners.batches`.
            per_weights: [B, 1] importance weights, or a number.
        """
        loss, logp, _, _ = self._loss_pi(batch, per_weights)
        return loss, logp

    def _loss_pi(self, batch: Mapping[str, Any], per_weights: Any) -> tuple[Tensor, Tensor, Any, dict[str, Any]]:
        rows = self._rows(batch, per_weights)
        logp, value, dist = self._policy_and_value(self.actor, rows.now)
        loss, info = self._addon_terms(batch, dist, (rows.weights * (self.alpha * logp - value)).mean())
        return loss, logp, rows.weights, info

    def compute_loss_alpha(self, log_probs: Tensor, per_weights: Any = 1) -> Tensor:
        """The loss of the temperature.

        Args:
            log_probs: [B, 1], from `compute_loss_pi`.
            per_weights: [B, 1] importance weights, or a number.
        """
        return -(per_weights * self.log_alpha * (log_probs + self.target_entropy).detach()).mean()

    def _losses(
        self, batch: Mapping[str, Any], n_step: float, per_weights: Any
    ) -> tuple[dict[str, Tensor], dict[str, Any], Tensor]:
        loss_q1, loss_q2, loss_q, errors = self.compute_loss_q(batch, n_step, per_weights)
        loss_pi, logp, weights, info = self._loss_pi(batch, per_weights)
        loss_alpha = self.compute_loss_alpha(logp, weights)
        numbers = {
            "loss_q1": loss_q1.item(),
            "loss_q2": loss_q2.item(),
            "loss_pi": loss_pi.item(),
            "loss_alpha": loss_alpha.item(),
            "alpha": self.alpha.item(),
        }
        losses = {"q_grads": loss_q, "pi_grads": loss_pi, "alpha_grads": loss_alpha}
        return losses, {**info, **numbers}, errors

    def _travelling_state(self) -> dict[str, Tensor]:
        return {"log_alpha": self.log_alpha.detach().cpu().clone()}

    @torch.no_grad()
    def _take_travelling_state(self, state: Mapping[str, Any]) -> None:
        if "log_alpha" in state:
            self.log_alpha.copy_(torch.as_tensor(state["log_alpha"]))
