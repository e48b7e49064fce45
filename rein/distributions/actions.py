"""Sampling and scoring with nests of distributions: one distribution per part of an action.

The parts of an action are independent given the observation, so log-probabilities and entropies add up over the nest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

from rein import nest
from rein.distributions.base import Distribution
from rein.nest import Nest


def sample_action_distribution(distributions: Nest, return_log_prob: bool = False) -> Nest:
    """Returns a sample of each distribution, without gradient.

    Args:
        distributions: distribution or nest of them.
        return_log_prob: whether to return `(sample, log_prob)`, with the [batch] log-probability of the whole sample.
    """
    if return_log_prob:
        return _with_log_prob(distributions, lambda one: one.sample_with_log_prob())
    return _map(lambda one: one.sample(), distributions)


def rsample_action_distribution(distributions: Nest, return_log_prob: bool = False) -> Nest:
    """Returns a sample of each distribution through which gradient reaches the parameters.

    Args:
        distributions: distribution or nest of them, all with `has_rsample`.
        return_log_prob: whether to return `(sample, log_prob)`, with the [batch] log-probability of the whole sample.
    """
    if not all(leaf.has_rsample for leaf in nest.flatten(distributions)):
        culprits = {path: leaf for path, leaf in nest.flatten_with_paths(distributions) if not leaf.has_rsample}
        raise ValueError(f"cannot be reparameterised: {culprits}; use sample_action_distribution")
    if return_log_prob:
        return _with_log_prob(distributions, lambda one: one.rsample_with_log_prob())
    return _map(lambda one: one.rsample(), distributions)


def epsilon_greedy_sample(distributions: Nest, eps: float = 0.1) -> Nest:
    """Returns the mode, or with probability `eps` a sample, without gradient.

    Each entry of the batch chooses by itself, and all parts of its action follow the same choice.

    Args:
        distributions: distribution or nest of them.
        eps: chance of sampling, in [0, 1]; 0 is always the mode, 1 always a sample.
    """
    if not 0.0 <= eps <= 1.0:
        raise ValueError(f"eps is a probability, got {eps}")
    with torch.no_grad():
        if eps == 0.0:
            return get_mode(distributions)
        if eps == 1.0:
            return sample_action_distribution(distributions)
        leaves = nest.flatten(distributions)
        if not leaves:
            return distributions
        mode = leaves[0].mode
        explore = torch.rand(leaves[0].batch_shape, device=mode.device) < eps
        return _map(lambda one: torch.where(_over_event(explore, one), one.sample(), one.mode), distributions)


def get_mode(distributions: Nest) -> Nest:
    """Returns the mode of each distribution."""
    return _map(lambda one: one.mode, distributions)


def get_rmode(distributions: Nest) -> Nest:
    """Returns the mode of each distribution, with gradient to the parameters where one can be defined."""
    return _map(lambda one: one.rmode, distributions)


def get_base_dist(distributions: Nest) -> Nest:
    """Returns each distribution as it is before squashing, clipping or truncation."""
    return _map(lambda one: one.base, distributions)


def compute_log_probability(distributions: Nest, actions: Nest) -> Tensor:
    """Returns the log-probability of the whole action, [batch].

    Args:
        distributions: distribution or nest of them.
        actions: [batch, event] each, the same structure.
    """
    if isinstance(distributions, Distribution):
        return distributions.log_prob(actions)
    return sum_over_nest(nest.map_structure(lambda one, action: one.log_prob(action), distributions, actions))


def compute_entropy(distributions: Nest) -> Tensor:
    """Returns the entropy of the whole action in nats, [batch].

    Raises:
        NotImplementedError: if one has none in closed form or by quadrature; see `entropy_with_fallback`.
    """
    return sum_over_nest(_map(lambda one: one.entropy(), distributions))


def sum_over_nest(values: Nest) -> Tensor:
    """Returns the sum of a nest of [batch] tensors, [batch]."""
    leaves = cast(list[Tensor], nest.flatten(values))
    if not leaves:
        raise ValueError("the nest of distributions is empty")
    total = leaves[0]
    for leaf in leaves[1:]:
        total = total + leaf
    return total


def _map(function: Callable[[Any], Any], distributions: Nest) -> Nest:
    if isinstance(distributions, Distribution):
        return function(distributions)
    return nest.map_structure(function, distributions)


def _with_log_prob(
    distributions: Nest, function: Callable[[Distribution], tuple[Tensor, Tensor]]
) -> tuple[Nest, Tensor]:
    if isinstance(distributions, Distribution):
        return function(distributions)
    pairs = [function(one) for one in nest.flatten(distributions)]
    samples = nest.pack_sequence_as(distributions, [sample for sample, _ in pairs])
    return samples, sum_over_nest([log_prob for _, log_prob in pairs])


def _over_event(mask: Tensor, distribution: Distribution) -> Tensor:
    return mask.view(mask.shape + (1,) * distribution.event_ndims)
