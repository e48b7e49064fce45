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

from rein.algorithms.off_policy.mpo import candidate_weights, solve_temperature
from rein.algorithms.off_policy.mpo_heads import Candidates, CategoricalHead, Constraint, NormalHead
from rein.distributions import Categorical, DiagNormal, Distribution
from rein.learners.base import NO_ADDONS, Learner, factory, is_discrete
from rein.learners.batches import View


class MPO(Learner):
    """Maximum a posteriori policy optimisation, for continuous actions or one discrete action."""

    def __init__(
        self,
        device: torch.device | str,
        envs: Any,
        actor: Any,
        lr_q: float = 0.0001,
        lr_pi: float = 0.0001,
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
            start_steps: random environment steps before anything is learnt.
            mini_batch_size: rows per update.
            num_test_episodes: episodes of each test.
            target_update_interval: updates between those of the targets.
            dual_constraint: how far the E-step may go from the target policy, in nats.
            kl_mean_constraint: limit of the M-step for the means, in nats.
            kl_var_constraint: limit of the M-step for the variances, in nats.
            kl_constraint: limit of the M-step of a discrete action, in nats.
            alpha_scale: step size of the multiplier; discrete action.
            alpha_mean_scale: step size of the multiplier of the means.
            alpha_var_scale: step size of the multiplier of the variances.
            alpha_mean_max: largest multiplier of the means.
            alpha_var_max: largest multiplier of the variances.
            alpha_max: largest multiplier; discrete action.
            mstep_iterations: steps of the multipliers per update.
            sample_action_num: candidate actions per state; continuous actions.
            max_grad_norm: of each group of parameters.
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
        self._discrete = is_discrete(actor.action_space)
        if not self._discrete and sample_action_num < 2:
            raise ValueError(f"sample_action_num is {sample_action_num}: at least 2 actions are needed to prefer one")
        self.dual_constraint, self.mstep_iterations = dual_constraint, mstep_iterations
        self.sample_action_num = sample_action_num
        self._constraints = (
            (Constraint("kl", kl_constraint, alpha_scale, alpha_max),)
            if self._discrete
            else (
                Constraint("kl_mean", kl_mean_constraint, alpha_mean_scale, alpha_mean_max),
                Constraint("kl_var", kl_var_constraint, alpha_var_scale, alpha_var_max),
            )
        )
        self.multipliers = torch.zeros(len(self._constraints), device=self.device)
        """Alpha of each limit."""
        self.eta = torch.ones((), device=self.device)
        """Temperature of the last E-step."""
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

    @torch.no_grad()
    def _proposals(self, view: View) -> tuple[Candidates, Distribution]:
        """Candidates [B, N] of the target policy with their values, and that policy."""
        target = _as_ours(self.actor_targets.get_action(*view, deterministic=True)[5], self._discrete)
        if isinstance(target, Categorical):
            (value,) = self._q_scores(self.actor_targets, view)
            action = torch.arange(value.shape[-1], device=value.device).expand(value.shape)
            return Candidates(action, value, target.log_probs), target
        count = self.sample_action_num
        samples = target.sample((count,))
        if self.actor.is_recurrent:
            values = [self._q_scores(self.actor_targets, view, action)[0] for action in samples]
            value = torch.cat(values, -1)
        else:
            flat = samples.transpose(0, 1).flatten(0, 1)
            value = self._q_scores(self.actor_targets, view.repeated(count), flat)[0].reshape(-1, count)
        return Candidates(samples.transpose(0, 1), value, torch.full_like(value, 1.0 / count).log_()), target

    def compute_loss_q(
        self, batch: Mapping[str, Any], n_step: float = 1, per_weights: Any = 1
    ) -> tuple[Tensor, Tensor]:
        """The loss of the critic, and the absolute TD errors [B, 1].

        Args:
            batch: see `rein.learners.batches`.
            n_step: steps that the rewards of the batch sum up.
            per_weights: [B, 1] importance weights, or a number.
        """
        rows = self._rows(batch, per_weights)
        candidates, _ = self._proposals(rows.next)
        value = (candidates.log_prior.exp() * candidates.value).sum(-1, keepdim=True)
        if self._discrete:
            q = self._q_scores(self.actor, rows.now)[0].gather(-1, rows.action.long().reshape(-1, 1))
        else:
            (q,) = self._q_scores(self.actor, rows.now, rows.action)
        errors = q - self._targets(rows, n_step, value)
        return 0.5 * (rows.weights * errors.square()).mean(), errors.abs()

    def compute_loss_pi(self, batch: Mapping[str, Any], per_weights: Any = 1) -> Tensor:
        """The loss of the policy; moves the temperature and the multipliers.

        Args:
            batch: see `rein.learners.batches`.
            per_weights: [B, 1] importance weights, or a number.
        """
        return self._loss_pi(batch, per_weights)[0]

    def _loss_pi(self, batch: Mapping[str, Any], per_weights: Any) -> tuple[Tensor, dict[str, Any]]:
        rows = self._rows(batch, per_weights)
        candidates, target = self._proposals(rows.now)
        self.eta = solve_temperature(candidates.value, candidates.log_prior, self.dual_constraint, self.eta)
        weights = candidate_weights(candidates, self.eta)
        dist = self.actor.get_action(*rows.now, deterministic=True)[5]
        policy = _as_ours(dist, self._discrete)
        head: Any = CategoricalHead if self._discrete else NormalHead
        fit = (weights * head.log_likelihood(policy, target, candidates.action)).sum(-1)
        divergences = head.divergences(policy, target)
        self._move_multipliers([one.detach().mean() for one in divergences])
        loss = -fit
        for alpha, limit, divergence in zip(self.multipliers, self._constraints, divergences, strict=True):
            loss = loss - alpha * (limit.limit - divergence)
        return self._addon_terms(batch, dist, (rows.weights * loss.unsqueeze(-1)).mean())

    def _move_multipliers(self, divergences: list[Tensor]) -> None:
        """Every M-step raises the multipliers of limits that are broken, and lowers the others."""
        moved = []
        for alpha, constraint, divergence in zip(self.multipliers, self._constraints, divergences, strict=True):
            for _ in range(self.mstep_iterations):
                alpha = alpha + constraint.scale * (divergence - constraint.limit)
                alpha = alpha.clamp(0.0, constraint.maximum)
            moved.append(alpha)
        self.multipliers = torch.stack(moved)

    def _losses(
        self, batch: Mapping[str, Any], n_step: float, per_weights: Any
    ) -> tuple[dict[str, Tensor], dict[str, Any], Tensor]:
        loss_q, errors = self.compute_loss_q(batch, n_step, per_weights)
        loss_pi, info = self._loss_pi(batch, per_weights)
        info = {**info, "loss_q": loss_q.item(), "loss_pi": loss_pi.item()}
        return {"q_grads": loss_q, "pi_grads": loss_pi}, info, errors

    def _travelling_state(self) -> dict[str, Tensor]:
        return {"multipliers": self.multipliers.cpu().clone(), "eta": self.eta.cpu().clone()}

    def _take_travelling_state(self, state: Mapping[str, Any]) -> None:
        for name in state:
            setattr(self, name, torch.as_tensor(state[name]).to(self.device))


def _as_ours(dist: Any, discrete: bool) -> Distribution:
    """A distribution of Rein with the parameters of `dist`, which may be one of torch's."""
    if isinstance(dist, Distribution):
        return dist
    if discrete:
        return Categorical(logits=dist.logits)
    dist = getattr(dist, "base_dist", dist)
    if not hasattr(dist, "loc") or not hasattr(dist, "scale"):
        raise ValueError(
            f"MPO needs normal distributions of continuous actions, but the actor gives {type(dist).__name__}"
        )
    return DiagNormal(dist.loc, dist.scale)
