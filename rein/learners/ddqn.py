"""Double deep Q-learning (van Hasselt et al. 2016, arXiv:1509.06461) as a learner.

    y = r + gamma^n (1 - done') Q'(s', argmax_a Q(s', a)),  minimise mean w (y - Q(s, a))^2

The policy is epsilon-greedy. Epsilon is multiplied by `epsilon_decay` at every update, and never below 0.05.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Categorical

from rein.learners.base import NO_ADDONS, Learner, factory
from rein.ops.action_values import select_action_value

_LEAST_EPSILON = 0.05


class DDQN(Learner):
    """Double deep Q-learning."""

    has_policy = False

    def __init__(
        self,
        device: torch.device | str,
        envs: Any,
        actor: Any,
        lr: float = 0.0001,
        gamma: float = 0.99,
        polyak: float = 0.995,
        num_updates: int = 1,
        update_every: int = 50,
        test_every: int = 5000,
        max_grad_norm: float = 0.5,
        start_steps: int = 20000,
        mini_batch_size: int = 64,
        num_test_episodes: int = 5,
        initial_epsilon: float = 1.0,
        epsilon_decay: float = 0.999,
        target_update_interval: float = 1,
        policy_loss_addons: Any = NO_ADDONS,
    ) -> None:
        """Makes the learner.

        Args:
            device: where losses are computed.
            envs: environments of the actor; not used.
            actor: see `rein.learners.base`.
            lr: learning rate.
            gamma: discount factor.
            polyak: how much of the targets stays at each of their updates.
            num_updates: updates in a row, from one fragment of data.
            update_every: environment steps from one fragment to the next.
            test_every: updates between tests.
            max_grad_norm: of each group of parameters.
            start_steps: random environment steps before anything is learnt.
            mini_batch_size: rows per update.
            num_test_episodes: episodes of each test.
            initial_epsilon: chance of a random action at the start.
            epsilon_decay: factor of that chance at each update, down to 0.05.
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
        self.epsilon, self.epsilon_decay = float(initial_epsilon), epsilon_decay
        self._add_adam("q_grads", self._critic_parameters, lr)

    @classmethod
    def create_factory(
        cls,
        lr: float = 0.0001,
        gamma: float = 0.99,
        polyak: float = 0.995,
        num_updates: int = 50,
        update_every: int = 50,
        test_every: int = 5000,
        start_steps: int = 20000,
        max_grad_norm: float = 0.5,
        mini_batch_size: int = 64,
        num_test_episodes: int = 5,
        epsilon_decay: float = 0.999,
        initial_epsilon: float = 1.0,
        target_update_interval: float = 1,
        policy_loss_addons: Any = NO_ADDONS,
    ) -> tuple[Callable[..., Any], str]:
        """Returns what makes learners, called as `make(device, actor, envs)`, and their name; see the constructor."""
        return factory(cls, locals())

    @torch.no_grad()
    def acting_step(
        self, obs: Any, rhs: dict[str, Tensor], done: Tensor, deterministic: bool = False
    ) -> tuple[Tensor, Tensor, dict[str, Tensor], dict[str, Any]]:
        """The best action [E, 1], or with chance epsilon, for each environment by itself, a random one."""
        scores = self.actor.get_q_scores(obs, rhs, done)
        q = scores["q1"]
        action = q.argmax(-1, keepdim=True)
        if not deterministic:
            is_random = torch.rand(action.shape, device=action.device) < self.epsilon
            action = torch.where(is_random, torch.randint_like(action, q.shape[-1]), action)
        return action, action, {**rhs, **scores["rhs"]}, {}

    def compute_loss(self, batch: Mapping[str, Any], n_step: float = 1, per_weights: Any = 1) -> tuple[Tensor, Tensor]:
        """The loss, and the absolute TD errors [B, 1].

        Args:
            batch: see `rein.learners.batches`.
            n_step: steps that the rewards of the batch sum up.
            per_weights: [B, 1] importance weights, or a number.
        """
        loss, errors, _ = self._loss(batch, n_step, per_weights)
        return loss, errors

    def _loss(self, batch: Mapping[str, Any], n_step: float, per_weights: Any) -> tuple[Tensor, Tensor, dict[str, Any]]:
        rows = self._rows(batch, per_weights)
        (values,) = self._q_scores(self.actor, rows.now)
        with torch.no_grad():
            best = self._q_scores(self.actor, rows.next)[0].argmax(-1)
            (following,) = self._q_scores(self.actor_targets, rows.next)
            target = self._targets(rows, n_step, select_action_value(following.unsqueeze(1), best))
        q = select_action_value(values.unsqueeze(1), rows.action.long().flatten())
        loss, info = self._addon_terms(batch, Categorical(logits=values), (rows.weights * (q - target).square()).mean())
        return loss, (q - target).abs(), info

    def _losses(
        self, batch: Mapping[str, Any], n_step: float, per_weights: Any
    ) -> tuple[dict[str, Tensor], dict[str, Any], Tensor]:
        loss, errors, info = self._loss(batch, n_step, per_weights)
        return {"q_grads": loss}, {**info, "loss_q": loss.item(), "epsilon": self.epsilon}, errors

    def _packed(self, grads: dict[str, list[Any]]) -> Any:
        return grads["q_grads"]

    def set_weights(self, weights: Mapping[str, Any]) -> None:  # type: ignore[override]
        """Takes over parameters that somebody else updated once: counts the update, moves the targets, lowers epsilon.

        Args:
            weights: `state_dict` of an actor, or what `get_weights` gives.
        """
        super().set_weights(weights)

    def _after_update(self) -> None:
        super()._after_update()
        self.epsilon = max(_LEAST_EPSILON, self.epsilon * self.epsilon_decay)

    def _travelling_state(self) -> dict[str, Tensor]:
        return {"epsilon": torch.tensor(self.epsilon, dtype=torch.float64)}

    def _take_travelling_state(self, state: Mapping[str, Any]) -> None:
        if "epsilon" in state:
            self.epsilon = float(state["epsilon"])
