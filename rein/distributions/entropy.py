"""Entropy estimates, and the entropies that temperature tuning aims at by default."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rein import nest
from rein.config import configurable
from rein.distributions.actions import sum_over_nest
from rein.distributions.base import Distribution
from rein.nest import Nest
from rein.ops.entropy import continuous_target_entropy, discrete_target_entropy
from rein.specs import BoundedTensorSpec


def estimated_entropy(dist: Distribution, num_samples: int = 1, check_numerics: bool = False) -> tuple[Tensor, Tensor]:
    """Estimates the entropy by sampling.

    Args:
        dist: the distribution.
        num_samples: how many samples are averaged.
        check_numerics: whether to raise FloatingPointError if a log-probability is not finite.

    Returns:
        entropy: [batch] in nats, unbiased.
        entropy_for_gradient: [batch] whose gradient is an unbiased estimate of the gradient of the entropy; its value
            is another where the distribution cannot be reparameterised.
    """
    if num_samples < 1:
        raise ValueError(f"num_samples must be at least 1, got {num_samples}")
    sample_shape = (num_samples,) if num_samples > 1 else ()
    sample_and_score = dist.rsample_with_log_prob if dist.has_rsample else dist.sample_with_log_prob
    sample, log_prob = sample_and_score(sample_shape)
    if check_numerics and not bool(torch.isfinite(log_prob).all()):
        worst = log_prob[~torch.isfinite(log_prob)][0].item()
        raise FloatingPointError(f"{dist!r} gave its own sample the log-probability {worst}; sample: {sample}")
    # The gradient of the entropy is -E[log p * grad log p], that of -(log p)^2 / 2 at a fixed sample.
    for_gradient = -log_prob if dist.has_rsample else -0.5 * log_prob.square()
    entropy = -log_prob
    if num_samples > 1:
        entropy, for_gradient = entropy.mean(0), for_gradient.mean(0)
    return (for_gradient, for_gradient) if dist.has_rsample else (entropy.detach(), for_gradient)


def entropy_with_fallback(distributions: Nest, return_sum: bool = True) -> tuple[Nest, Nest]:
    """Returns the entropy of each distribution, exact where there is a closed form and from one sample otherwise.

    Args:
        distributions: distribution or nest of them.
        return_sum: whether to add up the nest; otherwise both results have its structure.

    Returns:
        entropy: [batch] in nats.
        entropy_for_gradient: [batch]; maximise this. See `estimated_entropy`.
    """
    leaves = nest.flatten(distributions)
    pairs = [_exact_or_estimated(leaf) for leaf in leaves]
    entropies, for_gradient = [first for first, _ in pairs], [second for _, second in pairs]
    if return_sum:
        return sum_over_nest(entropies), sum_over_nest(for_gradient)
    return nest.pack_sequence_as(distributions, entropies), nest.pack_sequence_as(distributions, for_gradient)


def _exact_or_estimated(dist: Distribution) -> tuple[Tensor, Tensor]:
    if not dist.has_exact_entropy:
        return estimated_entropy(dist)
    entropy = dist.entropy()
    return entropy, entropy


@configurable
def calc_default_target_entropy(spec: Nest, min_prob: float = 0.1) -> float:
    """Returns the entropy, in nats, that a policy is by default not allowed to fall below.

    A continuous element should still spread over the share `min_prob` of its range; a discrete one leave its favourite
    with probability `min_prob`, evenly to the other values. Elements and parts of a nest add up.

    Args:
        spec: bounded action spec or nest of them.
        min_prob: see above.
    """

    def one(leaf: BoundedTensorSpec) -> float:
        if leaf.is_continuous:
            low, high = (torch.from_numpy(bound.astype(np.float64)) for bound in (leaf.minimum, leaf.maximum))
            return float(continuous_target_entropy(low, high, min_prob))
        return sum(discrete_target_entropy(int(count), min_prob) for count in _sizes(leaf).flat)

    return _sum_over_specs(one, spec)


@configurable
def calc_target_entropy_by_count(spec: Nest, per_action: float = -1.0) -> float:
    """Returns the entropy, in nats, that Haarnoja et al. (2018) let the policy of soft actor-critic keep.

    That is `per_action` for each continuous action, in units of half its range, so that it does not depend on the units of
    the environment. A discrete action has what `calc_default_target_entropy` gives. Parts of a nest add up.

    Args:
        spec: bounded action spec or nest of them.
        per_action: see above.
    """

    def one(leaf: BoundedTensorSpec) -> float:
        if not leaf.is_continuous:
            return calc_default_target_entropy(leaf)
        return float((np.log(_sizes(leaf) / 2.0) + per_action).sum())

    return _sum_over_specs(one, spec)


@configurable
def calc_default_max_entropy(spec: Nest, fraction: float = 0.8) -> float:
    """Returns a little less, in nats, than the largest entropy that actions of `spec` can have.

    Args:
        spec: bounded action spec or nest of them.
        fraction: in (0, 1]; an element with the upper bound H gets `fraction * H`, or `H / fraction` if H is negative.
    """
    if not 0.0 < fraction <= 1.0:
        raise ValueError(f"fraction must be in (0, 1], got {fraction}")

    def one(leaf: BoundedTensorSpec) -> float:
        upper = np.log(_sizes(leaf))
        return float(np.minimum(upper * fraction, upper / fraction).sum())

    return _sum_over_specs(one, spec)


@configurable
def calc_default_target_entropy_quantized(spec: Nest, num_bins: int, ent_per_action_dim: float = -1.0) -> float:
    """Returns the target entropy, in nats, of continuous actions that are chosen from bins.

    With bins of the width w the entropy of the bin is about the differential entropy minus log w.

    Args:
        spec: bounded continuous action spec or nest of them.
        num_bins: how many bins there are per element.
        ent_per_action_dim: differential entropy wanted per element; -1 is what SAC aims at.
    """
    if num_bins < 2:
        raise ValueError(f"num_bins must be at least 2, got {num_bins}")

    def one(leaf: BoundedTensorSpec) -> float:
        if not leaf.is_continuous:
            raise ValueError(f"only continuous actions are quantised, got {leaf}")
        targets = ent_per_action_dim - np.log(_sizes(leaf) / num_bins)
        if (targets < 0.0).any() or (targets > math.log(num_bins)).any():
            raise ValueError(
                f"{num_bins} bins cannot have the entropies {targets.tolist()} for {leaf}: set ent_per_action_dim "
                f"(now {ent_per_action_dim}) to less than the log of the action range, or change num_bins"
            )
        return float(targets.sum())

    return _sum_over_specs(one, spec)


def calc_uniform_log_prob(spec: Nest) -> float:
    """Returns the log-probability (density) of every action under the uniform distribution over `spec`."""
    return _sum_over_specs(lambda leaf: -float(np.log(_sizes(leaf)).sum()), spec)


def _sizes(spec: BoundedTensorSpec) -> NDArray[np.float64]:
    """Returns the length of the range, or the number of values, of each element as float64."""
    size = spec.maximum.astype(np.float64) - spec.minimum.astype(np.float64)
    return np.asarray(size if spec.is_continuous else size + 1.0)


def _sum_over_specs(function: Callable[[BoundedTensorSpec], float], spec: Nest) -> float:
    total = 0.0
    for path, leaf in nest.flatten_with_paths(spec):
        if not isinstance(leaf, BoundedTensorSpec):
            raise TypeError(f"the action spec at '{path}' must be a BoundedTensorSpec, got {leaf!r}")
        if not (np.isfinite(leaf.minimum).all() and np.isfinite(leaf.maximum).all()):
            raise ValueError(f"the action spec at '{path}' must have finite bounds, got {leaf!r}")
        if leaf.is_continuous and not (leaf.minimum < leaf.maximum).all():
            raise ValueError(f"the action spec at '{path}' must have minimum below maximum, got {leaf!r}")
        total += function(leaf)
    return total
