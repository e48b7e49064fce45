"""Maximum a posteriori policy optimisation (Abdolmaleki et al. 2018, arXiv:1806.06920) as a learner.

The equations are those of `rein.algorithms.off_policy.mpo`, whose E-step and divergences are used here:

    critic: y = r + gamma^n (1 - done') E_{a ~ pi'} Q'(s', a),  minimise 1/2 mean w (y - Q(s, a))^2
    policy: minimise -mean w (sum_i q_i log pi(a_i | s) + alpha (limit - KL(pi' || pi)))

A gradient must not make steps, so all but the last of the `mstep_iterations` only move the multipliers alpha.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from rein.algorithms.off_policy.mpo import MpoAlgorithm, MpoInfo
from rein.data_structures import StepType
from rein.learners.actor_networks import is_discrete
from rein.learners.base import Learner
from rein.learners.factories import NO_ADDONS, factory, shared
from rein.networks import Network
from rein.runtime.schedules import Changing


class MPO(Learner):
    """Maximum a posteriori policy optimisation, for continuous actions or one discrete action."""

    policy_kind = "distribution"
    info_type = MpoInfo
    last_step = StepType.LAST

    def __init__(
        self,
        device: torch.device | str,
        envs: Any,
        actor: Any,
        lr_q: Changing = 0.0001,
        lr_pi: Changing = 0.0001,
        gamma: float = 0.99,
        polyak: float = 1.0,
        num_updates: int = 1,
        update_every: int = 50,
        test_every: int = 1000,
        start_steps: int = 20000,
        mini_batch_size: int = 64,
        num_test_episodes: int = 5,
        target_update_interval: float = 1,
        dual_constraint: float = 0.1,
        kl_mean_constraint: float = 0.01,
        kl_var_constraint: float = 0.0001,
        kl_constraint: float = 0.01,
        alpha_scale: float = 10.0,
        alpha_mean_scale: float = 1.0,
        alpha_var_scale: float = 100.0,
        alpha_mean_max: float = 0.1,
        alpha_var_max: float = 10.0,
        alpha_max: float = 1.0,
        mstep_iterations: int = 5,
        sample_action_num: int = 64,
        max_grad_norm: float = 0.1,
        policy_loss_addons: Any = NO_ADDONS,
    ) -> None:
        """Makes the learner; what all learners have is described at `rein.learners.base.Learner`.

        Besides: `lr_q` and `lr_pi`, the learning rates of critic and policy; and what `rein.algorithms.off_policy.mpo` has
        under the same names. Of the `mstep_iterations` of an update, all but the last only move the multipliers.
        """
        super().__init__(device, envs, actor, **shared(locals()))
        self._discrete = is_discrete(actor.action_space)
        self.mstep_iterations = mstep_iterations
        networks = iter((self._critics, self._critics.copy()))

        def critics(**_: Any) -> Network:
            return next(networks)

        self.algorithm = self._build(
            MpoAlgorithm,
            actor_network_ctor=self._a_policy,
            critic_network_ctor=critics,
            q_network_ctor=critics,
            dual_constraint=dual_constraint,
            kl_mean_constraint=kl_mean_constraint,
            kl_var_constraint=kl_var_constraint,
            kl_constraint=kl_constraint,
            alpha_scale=alpha_scale,
            alpha_mean_scale=alpha_mean_scale,
            alpha_var_scale=alpha_var_scale,
            alpha_mean_max=alpha_mean_max,
            alpha_var_max=alpha_var_max,
            alpha_max=alpha_max,
            mstep_iterations=1,
            sample_action_num=sample_action_num,
        )
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
        mini_batch_size: int = 64,
        num_test_episodes: int = 5,
        target_update_interval: float = 1.0,
        dual_constraint: float = 0.1,
        kl_mean_constraint: float = 0.01,
        kl_var_constraint: float = 0.0001,
        kl_constraint: float = 0.01,
        alpha_scale: float = 10.0,
        alpha_mean_scale: float = 1.0,
        alpha_var_scale: float = 100.0,
        alpha_mean_max: float = 0.1,
        alpha_var_max: float = 10.0,
        alpha_max: float = 1.0,
        mstep_iterations: int = 5,
        sample_action_num: int = 64,
        max_grad_norm: float = 0.1,
        policy_loss_addons: Any = NO_ADDONS,
    ) -> tuple[Callable[..., Any], str]:
        """Returns what makes learners, called as `make(device, actor, envs)`, and their name; see the constructor."""
        return factory(cls, locals())

    @property
    def discrete_version(self) -> bool:
        """Whether the action is discrete."""
        return self._discrete

    @property
    def multipliers(self) -> Tensor:
        """Alpha of each limit."""
        return self.algorithm._multipliers.detach()

    @property
    def eta(self) -> Tensor:
        """Temperature of the last E-step."""
        return self.algorithm._temperature

    def compute_loss_q(
        self, batch: Mapping[str, Any], n_step: float = 1, per_weights: Any = 1
    ) -> tuple[Tensor, Tensor]:
        """The loss of the critic, and the absolute TD errors [B, 1].

        Args:
            batch: see `rein.learners.batches`.
            n_step: steps that the rewards of the batch sum up.
            per_weights: [B, 1] importance weights, or a number.
        """
        return self._loss_q(*self._learn(batch, n_step, per_weights))

    def _loss_q(self, info: Any, weights: Any) -> tuple[Tensor, Tensor]:
        (squares,), errors = self._td_errors([self.algorithm._critic_loss], info, info.q_values, info.target_value)
        return 0.5 * (weights * squares).mean(), errors.abs()

    def compute_loss_pi(self, batch: Mapping[str, Any], per_weights: Any = 1) -> Tensor:
        """The loss of the policy; moves the temperature and the multipliers.

        Args:
            batch: see `rein.learners.batches`.
            per_weights: [B, 1] importance weights, or a number.
        """
        return self._loss_pi(batch, *self._learn(batch, 1, per_weights))[0]

    def _loss_pi(self, batch: Mapping[str, Any], info: Any, weights: Any) -> tuple[Tensor, dict[str, Any]]:
        algorithm = self.algorithm
        algorithm._temperature.copy_(info.temperature[0, 0])
        for _ in range(self.mstep_iterations):
            # Each leads to the multipliers that its loss was computed with.
            loss, multiplier_loss, _ = algorithm._m_step_loss(info, info.action_distribution)
            (slope,) = torch.autograd.grad(multiplier_loss, [algorithm._multipliers], retain_graph=True)
            with torch.no_grad():
                algorithm._multipliers.sub_(slope)
            algorithm._limit_multipliers()
        return self._with_addons(batch, self._last_distribution, (weights * loss[0].unsqueeze(-1)).mean())

    def _losses(
        self, batch: Mapping[str, Any], n_step: float, per_weights: Any
    ) -> tuple[dict[str, Tensor], dict[str, Any], Tensor]:
        info, weights = self._learn(batch, n_step, per_weights)
        loss_q, errors = self._loss_q(info, weights)
        loss_pi, report = self._loss_pi(batch, info, weights)
        report = {**report, "loss_q": loss_q.item(), "loss_pi": loss_pi.item()}
        return {"q_grads": loss_q, "pi_grads": loss_pi}, report, errors

    def _travelling_state(self) -> dict[str, Tensor]:
        return {"multipliers": self.multipliers.cpu().clone(), "eta": self.eta.cpu().clone()}

    @torch.no_grad()
    def _take_travelling_state(self, state: Mapping[str, Any]) -> None:
        for name in state:
            getattr(self, name).copy_(torch.as_tensor(state[name]))
