"""What a search came to: how to act, and what to learn from it."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from rein.algorithms.search.planning import Tree
from rein.nest import Nest
from rein.ops import sharpen


class Found(NamedTuple):
    """What a search came to, on any backend."""

    acting: Tensor
    """[B, K], probabilities of the candidates."""
    learning: Tensor
    """float32 [B, K], the policy to learn."""
    value: Tensor
    """float32 [B], mean values of the roots."""
    rewards: Tensor
    """[B, K], of entering the roots' children."""
    actions: Any = ()
    """[B, K, ...], candidates; `()`: all actions."""
    pred_state: Nest = ()
    """Of the model's prediction network, where it is kept."""


def acting_policy(tree: Tree, prior: Tensor, temperature: Tensor | None, by_policy: bool) -> Tensor:
    """Probabilities of the candidates, [B, K].

    Args:
        tree: after the search.
        prior: of the roots, [B, K].
        temperature: [B]; None after a Gumbel root search, which decides by itself.
        by_policy: act by the exploration policy, not by visits.
    """
    visits = tree.child_visits()
    if temperature is None:
        score = tree.root_logits() + tree.root_gumbel()
        score = score.masked_fill(visits < visits.amax(-1, keepdim=True), -torch.inf)
        return torch.nn.functional.one_hot(score.argmax(-1), prior.shape[-1]).double()
    found = tree.root_policies() if by_policy else visits
    policy = sharpen(found.masked_fill(prior <= 0, 0.0), temperature.double())
    nothing = policy.sum(-1, keepdim=True) == 0
    return torch.where(nothing, (prior > 0).double(), policy)


def learning_policy(tree: Tree, prior: Tensor, temperature: float, by_policy: bool) -> Tensor:
    """The policy to learn, float32 [B, K].

    Args:
        tree: after the search.
        prior: of the roots, [B, K].
        temperature: what was found is taken to the power of 1 / this.
        by_policy: learn the exploration policy, not visits.
    """
    if tree.rules.gumbel_actions is not None:
        policy = tree.root_logits().softmax(-1)
    else:
        policy = tree.root_policies() if by_policy else tree.child_visits()
    return sharpen(policy.masked_fill(prior <= 0, 0.0), temperature).float()
