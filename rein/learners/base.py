"""What the five learners have in common: acting, gradients, steps and weights as four separate things.

A learner trains an actor that somebody hands in: an algorithm of Rein is built around the networks of the actor, and computes
all losses. Gradients never change parameters, and a step never sees data, so that each may be done by another process:

    gradients, info = learner.compute_gradients(batch)     # anywhere
    learner.apply_gradients(gradients)                     # where the parameters are
    replica.set_weights(learner.get_weights())             # everywhere else

The actor has `action_space`, `is_recurrent`, modules `policy_net`, `q1` and, for two critics, `q2`, and

    get_action(obs, rhs, done, deterministic=False) -> action, clipped action, log-probability [B, 1], rhs, entropy, dist
    get_q_scores(obs, rhs, done, actions=None) -> {"q1": [B, 1] or [B, n], "q2": the same, "rhs": dict}

where `dist` is the distribution of `action`. `rein.learners.NetworkActor` makes one of Rein's networks.

The target of all five is y = r + gamma^n (1 - done') V'(s'), without gradient.
"""

import copy
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import Parameter

from rein import nest
from rein.algorithms.losses import OneStepTDLoss
from rein.data_structures import StepType, TimeStep
from rein.learners.actor_networks import ActorCritics, ActorPolicy, action_spec_of, asked, is_discrete
from rein.learners.batches import N_STEP, PER_WEIGHTS, read_rows
from rein.learners.sent_gradients import parameters_of, put_gradients, take_gradients
from rein.networks import Network
from rein.runtime.schedules import Changing, Scheduler, as_scheduler, is_number
from rein.specs import TensorSpec
from rein.statistics.target_updater import soft_update

logger = logging.getLogger(__name__)

_LEARNER_STATE = "learner."
"""In front of what travels with the weights but does not belong to the actor."""


class Learner:
    """Base of the learners."""

    critic_names: tuple[str, ...] = ("q1",)
    policy_kind = "action"
    """What the algorithm asks the policy for, see `ActorPolicy`; "" where there is none."""
    info_type: Any
    """Of what the algorithm keeps of an action that was taken."""
    last_step = StepType.MID
    """Type of the second step of a transition: a policy that learns at every step must not learn there."""
    algorithm: Any
    """Of Rein: it computes the losses."""

    def __init__(
        self,
        device: torch.device | str,
        envs: Any,
        actor: Any,
        *,
        gamma: float,
        polyak: float,
        num_updates: int,
        update_every: int,
        test_every: int,
        max_grad_norm: float,
        start_steps: int,
        mini_batch_size: int,
        num_test_episodes: int,
        target_update_interval: float,
        policy_loss_addons: Any,
    ) -> None:
        """Makes targets, and the algorithm; optimizers are made by the subclass.

        Args:
            device: where losses are computed.
            envs: environments of the learner's actor; not used.
            actor: see the module.
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

        Learning rates, which the subclasses describe, may be numbers or what changes with the progress of a run, such as a
        `Scheduler`.
        """
        missing = [name for name in self._module_names() if getattr(actor, name, None) is None]
        if missing:
            raise ValueError(f"{type(self).__name__} needs an actor with {', '.join(missing)}: this one has none")
        if not 0.0 <= polyak <= 1.0:
            raise ValueError(f"polyak is {polyak}: it is the share of the targets that stays, between 0 and 1")
        if target_update_interval <= 0:
            raise ValueError(f"target_update_interval is {target_update_interval}: it must be positive")
        if polyak == 1.0:
            logger.warning("polyak is 1: the targets of %s never move", type(self).__name__)
        self.device = torch.device(device)
        self.envs = envs
        self.actor = actor.to(self.device)
        self.actor_targets = copy.deepcopy(self.actor)
        for parameter in self.actor_targets.parameters():
            parameter.requires_grad_(False)
        self._policy = ActorPolicy(self.actor, self.actor_targets, self.policy_kind) if self.policy_kind else None
        self._critics = ActorCritics(self.actor, self.actor_targets, self.critic_names)
        self.iter = 0
        """Updates that were made or received."""
        self._gamma, self.polyak, self.max_grad_norm = gamma, polyak, max_grad_norm
        self.target_update_interval = target_update_interval
        self._num_updates, self._update_every, self._test_every = num_updates, update_every, test_every
        self._start_steps, self._mini_batch_size = start_steps, mini_batch_size
        self._num_test_episodes = num_test_episodes
        is_list = isinstance(policy_loss_addons, list | tuple)
        self.policy_loss_addons = list(policy_loss_addons) if is_list else [policy_loss_addons]
        for addon in self.policy_loss_addons:
            addon.setup(self.actor, self.device)
        self.optimizers: dict[str, torch.optim.Optimizer] = {}
        """By the name of the gradients that they take, such as "q_grads"."""
        self._changing_rates: dict[str, Scheduler] = {}

    def _build(self, kind: Callable[..., Any], **settings: Any) -> Any:
        """An algorithm around the networks of the actor.

        Its losses discount by what the data says, in which powers of gamma are included.
        """
        spec = action_spec_of(self.actor.action_space)
        loss = partial(OneStepTDLoss, gamma=1.0)
        return kind(TensorSpec(()), spec, critic_loss_ctor=loss, **settings).to(self.device)

    def _a_policy(self, **_: Any) -> Network:
        assert self._policy is not None
        return self._policy

    def _some_critics(self, **_: Any) -> Network:
        return self._critics

    @classmethod
    def _module_names(cls) -> tuple[str, ...]:
        return (("policy_net",) if cls.policy_kind else ()) + cls.critic_names

    def _add_adam(self, group: str, parameters: Sequence[Parameter], lr: Changing) -> None:
        self.optimizers[group] = torch.optim.Adam(parameters, lr=float(lr) if is_number(lr) else 0.0)
        self._set_rate(group, lr)

    def _set_rate(self, group: str, lr: Changing) -> None:
        """Makes `lr` the rate of an optimizer: a number at once, what changes at each step."""
        self._changing_rates.pop(group, None)
        if is_number(lr):
            _put_rate(self.optimizers[group], lr)
        else:
            self._changing_rates[group] = as_scheduler(lr)

    @property
    def _critic_parameters(self) -> list[Parameter]:
        return [one for name in self.critic_names for one in getattr(self.actor, name).parameters()]

    # What drives a learner needs to know.

    @property
    def gamma(self) -> float:
        """Discount factor."""
        return self._gamma

    @property
    def start_steps(self) -> int:
        """Random environment steps before anything is learnt."""
        return self._start_steps

    @property
    def num_epochs(self) -> int:
        """Passes over the stored data: always 1."""
        return 1

    @property
    def update_every(self) -> int:
        """Environment steps between stages of updates."""
        return self._update_every

    @property
    def num_mini_batch(self) -> int:
        """Updates of a stage."""
        return self._num_updates

    @property
    def mini_batch_size(self) -> int:
        """Rows per update."""
        return self._mini_batch_size

    @property
    def test_every(self) -> int:
        """Updates between tests."""
        return self._test_every

    @property
    def num_test_episodes(self) -> int:
        """Episodes of each test."""
        return self._num_test_episodes

    def update_algorithm_parameter(self, parameter_name: str, new_parameter_value: Any) -> None:
        """Changes an attribute; one that there is not is left alone, with a warning.

        Args:
            parameter_name: of the constructor; `lr` is the rate of all optimizers.
            new_parameter_value: its value from now on.
        """
        groups = _RATES.get(parameter_name)
        if groups is not None:
            for name in self.optimizers:
                if groups in ("", name):
                    self._set_rate(name, new_parameter_value)
        hidden = "_" + {"num_mini_batch": "num_updates"}.get(parameter_name, parameter_name)
        if hidden in vars(self):
            setattr(self, hidden, new_parameter_value)
        elif parameter_name in vars(self):
            setattr(self, parameter_name, new_parameter_value)
        elif groups is None:
            logger.warning("%s has no parameter %r", type(self).__name__, parameter_name)

    # Acting.

    @torch.no_grad()
    def acting_step(
        self, obs: Any, rhs: dict[str, Tensor], done: Tensor, deterministic: bool = False
    ) -> tuple[Tensor, Tensor, dict[str, Tensor], dict[str, Any]]:
        """Picks actions.

        Args:
            obs: [E, ...].
            rhs: recurrent states by name.
            done: [E, 1], 1 where the environment restarted with this observation.
            deterministic: the best action, without exploration.

        Returns:
            Actions, actions within their bounds, recurrent states, and nothing else.
        """
        action, clipped_action, _, rhs, *_ = self.actor.get_action(obs, rhs, done, deterministic=deterministic)
        return action, clipped_action, rhs, {}

    # Losses.

    def _learn(self, batch: Mapping[str, Any], n_step: float, per_weights: Any) -> tuple[Any, Any]:
        """What the algorithm says about transitions, [2, B, ...], and the weights of their losses, [B, 1] or a number."""
        rows = read_rows(batch, self.actor, per_weights, self.device)
        discount = self._gamma**n_step * (1.0 - rows.next.done)
        size, discrete = len(rows.reward), is_discrete(self.actor.action_space)
        action = rows.action.long().reshape(-1) if discrete else rows.action
        types = torch.tensor([[StepType.MID, self.last_step]], dtype=torch.int32, device=self.device)
        step = TimeStep(
            step_type=types.expand(size, 2),
            reward=torch.cat([torch.zeros_like(rows.reward), rows.reward], 1),
            discount=torch.cat([torch.ones_like(discount), discount], 1),
            observation=nest.map_structure(_pair, asked(rows.now), asked(rows.next)),
        )
        info = self.algorithm.train_sequences(step, (), self.info_type(action=_pair(action, action)))
        return info, rows.weights

    def _td_errors(
        self, losses: Sequence[Any], info: Any, values: Tensor, target: Tensor
    ) -> tuple[list[Tensor], Tensor]:
        """Squared errors [B, 1] by the loss of each critic, and their errors [B, R].

        Args:
            losses: of the critics.
            info: has reward, discount and step types.
            values: [2, B, R].
            target: [2, B].
        """
        squares = [loss(info, values[:, :, i], target).loss[0].unsqueeze(-1) for i, loss in enumerate(losses)]
        return squares, values[0] - losses[0].compute_td_target(info, target)[0].unsqueeze(-1)

    def _with_addons(self, batch: Mapping[str, Any], dist: Any, loss: Tensor) -> tuple[Tensor, dict[str, Any]]:
        """A loss with the terms of the add-ons, and what they report."""
        info: dict[str, Any] = {}
        for addon in self.policy_loss_addons:
            term, info = addon.compute_loss_term(batch, dist, info)
            loss = loss + term
        return loss, info

    @property
    def _last_distribution(self) -> Any:
        """Of the policy, as the actor gave it when the algorithm asked."""
        assert self._policy is not None
        return self._policy.last_distribution

    # Gradients.

    def compute_gradients(self, batch: Mapping[str, Any], grads_to_cpu: bool = True) -> tuple[Any, dict[str, Any]]:
        """Gradients of a batch; no parameter is changed.

        Args:
            batch: see `rein.learners.batches`; it is left as it is.
            grads_to_cpu: give arrays that can be sent away, in the place of tensors.

        Returns:
            Lists in the order of the parameters by group, None where a parameter has none; and numbers to report, with
            `errors` [B, 1] if the batch has `per_weights`.
        """
        losses, info, errors = self._losses(batch, batch.get(N_STEP, 1), batch.get(PER_WEIGHTS, 1.0))
        grads = take_gradients(losses, self.optimizers, self.max_grad_norm, grads_to_cpu, type(self).__name__)
        if PER_WEIGHTS in batch:
            info["errors"] = errors.detach()
        return self._packed(grads), info

    def _losses(
        self, batch: Mapping[str, Any], n_step: float, per_weights: Any
    ) -> tuple[dict[str, Tensor], dict[str, Any], Tensor]:
        """Losses by the name of their gradients, numbers to report, and TD errors [B, 1]."""
        raise NotImplementedError

    def _packed(self, grads: dict[str, list[Any]]) -> Any:
        """Gradients in the form that is documented."""
        return grads

    def apply_gradients(self, gradients: Any = None) -> None:
        """Makes a step of the optimizers, and what follows an update.

        Args:
            gradients: from `compute_gradients`, of this learner or another; None takes what `compute_gradients` left.
        """
        if gradients is not None:
            by_group = gradients if isinstance(gradients, Mapping) else {"q_grads": gradients}
            put_gradients(by_group, self.optimizers, type(self).__name__)
        for name, optimizer in self.optimizers.items():
            if name in self._changing_rates:
                _put_rate(optimizer, self._changing_rates[name]())
            if any(one.grad is not None for one in parameters_of(optimizer)):
                optimizer.step()
        self._after_update()

    def _after_update(self) -> None:
        """Counts an update and moves the targets, if it is their turn."""
        self.iter += 1
        if self.iter % self.target_update_interval == 0:
            self._move_targets()

    def _move_targets(self) -> None:
        soft_update(self.actor, self.actor_targets, 1.0 - self.polyak)

    # Weights.

    def get_weights(self) -> dict[str, Tensor]:
        """What another learner of the same kind needs to act and learn as this one does, without targets."""
        weights = {name: tensor.detach().cpu().clone() for name, tensor in self.actor.state_dict().items()}
        return {**weights, **{_LEARNER_STATE + name: value for name, value in self._travelling_state().items()}}

    def set_weights(self, actor_weights: Mapping[str, Any]) -> None:
        """Takes over parameters that somebody else updated once: counts the update, and moves the targets.

        Args:
            actor_weights: `state_dict` of an actor, or what `get_weights` gives, which is taken as it is there.
        """
        own = self._load_actor(actor_weights)
        self._after_update()
        self._take_travelling_state(own)

    def load_weights(self, actor_weights: Mapping[str, Any]) -> None:
        """Takes over parameters without counting an update, such as the ones to begin with."""
        self._take_travelling_state(self._load_actor(actor_weights))

    def _load_actor(self, weights: Mapping[str, Any]) -> dict[str, Any]:
        """Loads what belongs to the actor; returns the rest by name."""
        own = {name: value for name, value in weights.items() if name.startswith(_LEARNER_STATE)}
        self.actor.load_state_dict({name: torch.as_tensor(weights[name]) for name in weights if name not in own})
        return {name.removeprefix(_LEARNER_STATE): value for name, value in own.items()}

    def _travelling_state(self) -> dict[str, Tensor]:
        """What travels with the weights besides the actor."""
        return {}

    def _take_travelling_state(self, state: Mapping[str, Any]) -> None:
        """Takes over what `_travelling_state` gave; nothing where it was left out."""

    def state_dict(self) -> dict[str, Any]:
        """All that going on exactly needs: actor, targets, optimizers and counters."""
        return {
            "weights": self.get_weights(),
            "targets": self.actor_targets.state_dict(),
            "optimizers": {name: optimizer.state_dict() for name, optimizer in self.optimizers.items()},
            "iter": self.iter,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores what `state_dict` gave."""
        self.load_weights(state["weights"])
        self.actor_targets.load_state_dict(state["targets"])
        for name, optimizer in self.optimizers.items():
            optimizer.load_state_dict(state["optimizers"][name])
        self.iter = state["iter"]


_RATES = {"lr": "", "lr_q": "q_grads", "lr_pi": "pi_grads", "lr_alpha": "alpha_grads"}


def _put_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


def _pair(now: Tensor, following: Tensor) -> Tensor:
    """Two steps [B, ...] as [B, 2, ...]."""
    return torch.stack([now, following], 1)
