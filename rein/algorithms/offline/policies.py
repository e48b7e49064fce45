"""What a policy network gives, seen alike whether it is stochastic or deterministic; and what the data must be like."""

from typing import Any, Protocol

import torch
from torch import Tensor

from rein import nest
from rein.distributions import Deterministic, compute_log_probability, get_rmode
from rein.distributions.params import DistributionSpec
from rein.framework import TrainerConfig
from rein.nest import Nest
from rein.networks import Network
from rein.specs import BoundedTensorSpec


class PolicyHead(Protocol):
    """How the output of a policy network is understood."""

    def distribution(self, output: Nest) -> Nest:
        """Nest of distributions of the actions."""

    def mode(self, output: Nest) -> Nest:
        """The most likely actions, with gradient."""

    def imitation_loss(self, output: Nest, action: Nest) -> Tensor:
        """How far the policy is from actions [B, ...] that were taken, [B]."""


class StochasticHead:
    """The network gives distributions: its imitation maximises the likelihood."""

    def distribution(self, output: Nest) -> Nest:
        """The output itself."""
        return output

    def mode(self, output: Nest) -> Nest:
        """The modes of the distributions."""
        return get_rmode(output)

    def imitation_loss(self, output: Nest, action: Nest) -> Tensor:
        """The negative log-likelihood of the whole action."""
        return -compute_log_probability(output, action)


class DeterministicHead:
    """The network gives actions: its imitation minimises the squared error."""

    def __init__(self, action_spec: Nest) -> None:
        """Keeps the structure of the action."""
        self._action_spec = action_spec

    def distribution(self, output: Nest) -> Nest:
        """All probability on the action that the network gives."""
        return nest.map_structure(
            lambda spec, action: Deterministic(action, event_ndims=spec.ndim), self._action_spec, output
        )

    def mode(self, output: Nest) -> Nest:
        """The output itself."""
        return output

    def imitation_loss(self, output: Nest, action: Nest) -> Tensor:
        """The squared error, summed over all elements of the action."""
        return flatten_action(nest.map_structure(lambda mine, taken: (taken - mine).square(), output, action)).sum(-1)


def make_head(actor: Network, action_spec: Nest, name: str) -> PolicyHead:
    """The head that fits to what `actor` gives.

    Args:
        actor: from observations to actions, or to distributions of them.
        action_spec: nest of specs of the action.
        name: of the algorithm, for the message.
    """
    kinds = {path: isinstance(leaf, DistributionSpec) for path, leaf in nest.flatten_with_paths(actor.output_spec)}
    if all(kinds.values()):
        return StochasticHead()
    if any(kinds.values()):
        raise ValueError(
            f"{name}: the actor network gives distributions for {[path for path in kinds if kinds[path]]} and plain "
            f"tensors for {[path for path in kinds if not kinds[path]]}: make it give one of both for all actions"
        )
    return DeterministicHead(action_spec)


def flatten_action(action: Nest) -> Tensor:
    """All elements of a nest of actions [B, ...] side by side, [B, A]."""
    leaves = [leaf.flatten(1) if leaf.ndim > 1 else leaf.unsqueeze(1) for leaf in nest.flatten(action)]
    return leaves[0] if len(leaves) == 1 else torch.cat(leaves, dim=1)


def check_continuous(action_spec: Nest, name: str) -> None:
    """Raises `ValueError` unless all actions are continuous."""
    specs = nest.flatten_with_paths(action_spec)
    if not specs:
        raise ValueError(f"{name} needs at least one continuous action, but action_spec is {action_spec}")
    for path, spec in specs:
        if not isinstance(spec, BoundedTensorSpec) or not spec.is_continuous:
            where = f"action {path!r}" if path else "the action"
            raise ValueError(
                f"{name} needs continuous actions, but {where} is {spec}: use BcAlgorithm for discrete ones"
            )


def check_length(config: TrainerConfig | None, name: str) -> None:
    """Raises `ValueError` if sequences are too short to hold a step and the one after it."""
    if config is None:
        return
    length = config.mini_batch_length or int(config.unroll_length)
    if length < 2:
        raise ValueError(
            f"{name} learns from a step and the one after it, but mini_batch_length is {length}: make it at least 2"
        )


def require_two_steps(step_type: Any, name: str) -> None:
    """Raises `ValueError` if infos [T, B] are of single steps."""
    if step_type.shape[0] < 2:
        raise ValueError(
            f"{name} got sequences of one step, which teach it nothing: set mini_batch_length to 2 or more"
        )
