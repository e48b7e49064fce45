"""Double deep Q-learning (van Hasselt et al. 2016, arXiv:1509.06461) as a learner.

    y = r + gamma^n (1 - done') Q'(s', argmax_a Q(s', a)),  minimise mean w (y - Q(s, a))^2

The policy is epsilon-greedy. Epsilon is multiplied by `epsilon_decay` at every update, and never below 0.05.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from rein.algorithms.off_policy.dqn import DqnAlgorithm, chance
from rein.algorithms.off_policy.sac_structures import SacInfo
from rein.distributions import Categorical
from rein.learners.base import Learner
from rein.learners.batches import read_rows
from rein.learners.factories import NO_ADDONS, factory, shared
from rein.runtime.schedules import Changing

_LEAST_EPSILON = 0.05


class DDQN(Learner):
    """Double deep Q-learning."""

    policy_kind = ""
    info_type = SacInfo

    def __init__(
        self,
        device: torch.device | str,
        envs: Any,
        actor: Any,
        lr: Changing = 0.0001,
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
        """Makes the learner; what all learners have is described at `rein.learners.base.Learner`.

        Besides: `lr`, the learning rate; `initial_epsilon`, the chance of a random action at the start; `epsilon_decay`, its
        factor at each update, down to 0.05.
        """
        super().__init__(device, envs, actor, **shared(locals()))
        self.epsilon, self.epsilon_decay = float(initial_epsilon), epsilon_decay
        self.algorithm = self._build(
            DqnAlgorithm,
            q_network_cls=self._some_critics,
            num_critic_replicas=1,
            target_net_target_action=False,
            one_transition=True,
        )
        self._add_adam("q_grads", self._critic_parameters, lr)

    @classmethod
    def create_factory(
        cls,
        lr: Changing = 0.0001,
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
        is_random = chance(scores["q1"][..., 0], 0.0 if deterministic else self.epsilon)
        choose = self.algorithm._epsilon_greedy_choice(is_random)
        action = choose(Categorical(logits=scores["q1"]))[0].unsqueeze(-1)
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
        info, weights = self._learn(batch, n_step, per_weights)
        (squares,), errors = self._td_errors(
            self.algorithm._critic_losses, info, info.critic.critics, info.critic.target_critic
        )
        loss, report = (weights * squares).mean(), dict[str, Any]()
        if self.policy_loss_addons:
            rows = read_rows(batch, self.actor, per_weights, self.device)
            dist = Categorical(logits=self.actor.get_q_scores(*rows.now)["q1"])
            loss, report = self._with_addons(batch, dist, loss)
        return loss, errors.abs(), report

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
