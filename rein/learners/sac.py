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

from rein.algorithms.off_policy.sac import SacAlgorithm
from rein.algorithms.off_policy.sac_structures import SacInfo
from rein.learners.actor_networks import is_discrete
from rein.learners.base import Learner
from rein.learners.factories import NO_ADDONS, factory, shared
from rein.runtime.schedules import Changing


class SAC(Learner):
    """Soft actor-critic, for continuous actions or one discrete action."""

    critic_names = ("q1", "q2")
    policy_kind = "sample"
    info_type = SacInfo

    def __init__(
        self,
        device: torch.device | str,
        envs: Any,
        actor: Any,
        lr_q: Changing = 0.0001,
        lr_pi: Changing = 0.0001,
        lr_alpha: Changing = 0.0001,
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
        """Makes the learner; what all learners have is described at `rein.learners.base.Learner`.

        Besides: `lr_q`, `lr_pi` and `lr_alpha`, the learning rates of critics, policy and temperature; `initial_alpha`, the
        temperature at the start.
        """
        super().__init__(device, envs, actor, **shared(locals()))
        if initial_alpha <= 0:
            raise ValueError(f"initial_alpha is {initial_alpha}: a temperature is positive")
        space = actor.action_space
        self._discrete = is_discrete(space)
        self.target_entropy = 0.98 * math.log(space.n) if self._discrete else -float(math.prod(space.shape))
        self.algorithm = self._build(
            SacAlgorithm,
            actor_network_cls=self._a_policy,
            discrete_actor_network_cls=self._a_policy,
            critic_network_cls=self._some_critics,
            q_network_cls=self._some_critics,
            initial_log_alpha=math.log(initial_alpha),
            target_entropy=self.target_entropy,
            one_transition=True,
        )
        self._add_adam("q_grads", self._critic_parameters, lr_q)
        self._add_adam("pi_grads", list(self.actor.policy_net.parameters()), lr_pi)
        self._add_adam("alpha_grads", [self.log_alpha], lr_alpha)

    @classmethod
    def create_factory(
        cls,
        lr_q: Changing = 0.0001,
        lr_pi: Changing = 0.0001,
        lr_alpha: Changing = 0.0001,
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
    def log_alpha(self) -> Parameter:
        """Log of the temperature, [1]."""
        return self.algorithm._log_alpha

    @property
    def alpha(self) -> Tensor:
        """The temperature, without gradient, [1]."""
        return self.log_alpha.detach().exp()

    def compute_loss_q(
        self, batch: Mapping[str, Any], n_step: float = 1, per_weights: Any = 1
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The losses of both critics, their mean, and the mean of their absolute TD errors [B, 1].

        Args:
            batch: see `rein.learners.batches`.
            n_step: steps that the rewards of the batch sum up.
            per_weights: [B, 1] importance weights, or a number.
        """
        return self._loss_q(*self._learn(batch, n_step, per_weights))

    def _loss_q(self, info: Any, weights: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        with_entropy, target = self.algorithm._targets(info)
        squares, errors = self._td_errors(self.algorithm._critic_losses, with_entropy, info.critic.critics, target)
        loss_q1, loss_q2 = ((weights * one).mean() for one in squares)
        return loss_q1, loss_q2, 0.5 * (loss_q1 + loss_q2), errors.abs().mean(-1, keepdim=True)

    def compute_loss_pi(self, batch: Mapping[str, Any], per_weights: Any = 1) -> tuple[Tensor, Tensor]:
        """The loss of the policy, and log pi [B, 1]; of a discrete action its mean.

        Args:
            batch: see `rein.learners.batches`.
            per_weights: [B, 1] importance weights, or a number.
        """
        loss, logp, _ = self._loss_pi(batch, *self._learn(batch, 1, per_weights))
        return loss, logp

    def _loss_pi(self, batch: Mapping[str, Any], info: Any, weights: Any) -> tuple[Tensor, Tensor, dict[str, Any]]:
        loss = (weights * info.actor.loss[0].unsqueeze(-1)).mean()
        loss, report = self._with_addons(batch, self._last_distribution, loss)
        return loss, info.log_pi[0], report

    def compute_loss_alpha(self, log_probs: Tensor, per_weights: Any = 1) -> Tensor:
        """The loss of the temperature.

        Args:
            log_probs: [B, 1], from `compute_loss_pi`.
            per_weights: [B, 1] importance weights, or a number.
        """
        return (
            per_weights * self.algorithm._alpha_loss(log_probs, self.algorithm._target_entropy).unsqueeze(-1)
        ).mean()

    def _losses(
        self, batch: Mapping[str, Any], n_step: float, per_weights: Any
    ) -> tuple[dict[str, Tensor], dict[str, Any], Tensor]:
        info, weights = self._learn(batch, n_step, per_weights)
        loss_q1, loss_q2, loss_q, errors = self._loss_q(info, weights)
        loss_pi, logp, report = self._loss_pi(batch, info, weights)
        loss_alpha = self.compute_loss_alpha(logp, weights)
        numbers = {
            "loss_q1": loss_q1.item(),
            "loss_q2": loss_q2.item(),
            "loss_pi": loss_pi.item(),
            "loss_alpha": loss_alpha.item(),
            "alpha": self.alpha.item(),
        }
        losses = {"q_grads": loss_q, "pi_grads": loss_pi, "alpha_grads": loss_alpha}
        return losses, {**report, **numbers}, errors

    def _travelling_state(self) -> dict[str, Tensor]:
        return {"log_alpha": self.log_alpha.detach().cpu().clone()}

    @torch.no_grad()
    def _take_travelling_state(self, state: Mapping[str, Any]) -> None:
        if "log_alpha" in state:
            self.log_alpha.copy_(torch.as_tensor(state["log_alpha"]).reshape(1))
