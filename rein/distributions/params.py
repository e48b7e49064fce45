"""Distributions to parameter tensors and back, for nests that mix distributions with tensors.

Replay buffers, rollout segments and worker queues know tensors only. A distribution is stored as the dict of its
parameter tensors; a `DistributionSpec`, kept aside once, holds the rest. Nothing is lost on the way: the parameters are
stored as they are, never recomputed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rein import nest, specs
from rein.distributions.base import Distribution, Recipe
from rein.nest import Nest


@dataclass(frozen=True)
class DistributionSpec:
    """What is fixed about a distribution: its kind, its settings and the specs of its parameters.

    Args:
        recipe: kind and settings.
        input_params_spec: nest of `TensorSpec`, the parameters without batch dimensions.
    """

    recipe: Recipe
    input_params_spec: Nest

    @classmethod
    def from_distribution(cls, distribution: Distribution, from_dim: int = 1) -> DistributionSpec:
        """Returns the spec of `distribution`, whose first `from_dim` dimensions are the batch."""
        return cls(distribution.recipe, specs.extract_spec(distribution.params, from_dim))

    def build_distribution(self, input_params: Nest) -> Distribution:
        """Returns the distribution with these parameters, which may have any batch dimensions."""
        return self.recipe.build(input_params)


def extract_spec(nest_with_distributions: Nest, from_dim: int = 1) -> Nest:
    """Returns the specs of a nest of tensors and distributions.

    Args:
        nest_with_distributions: nest of tensors and distributions.
        from_dim: how many leading dimensions are the batch and not part of the spec.

    Returns:
        The same nest with a `TensorSpec` for each tensor and a `DistributionSpec` for each distribution.
    """

    def one(leaf: Any) -> Any:
        if isinstance(leaf, Distribution):
            return DistributionSpec.from_distribution(leaf, from_dim)
        return specs.extract_spec(leaf, from_dim)

    return nest.map_structure(one, nest_with_distributions)


def to_distribution_param_spec(nest_spec: Nest) -> Nest:
    """Returns `nest_spec` with each `DistributionSpec` replaced by the specs of its parameters: what is stored."""
    return nest.map_structure(
        lambda spec: spec.input_params_spec if isinstance(spec, DistributionSpec) else spec, nest_spec
    )


def distributions_to_params(nest_with_distributions: Nest) -> Nest:
    """Returns the nest with each distribution replaced by the dict of its parameter tensors."""
    return nest.map_structure(
        lambda leaf: leaf.params if isinstance(leaf, Distribution) else leaf, nest_with_distributions
    )


def params_to_distributions(nest_of_params: Nest, nest_spec: Nest) -> Nest:
    """Returns what `distributions_to_params` was given.

    Args:
        nest_of_params: nest of tensors, with the parameters of a distribution in the place of each distribution.
        nest_spec: from `extract_spec`, the structure of the result.
    """
    return nest.map_structure_up_to(
        nest_spec,
        lambda spec, value: spec.build_distribution(value) if isinstance(spec, DistributionSpec) else value,
        nest_spec,
        nest_of_params,
    )


def map_params(function: Callable[[Tensor], Tensor], nest_with_distributions: Nest) -> Nest:
    """Returns the nest with `function` applied to every tensor and to every parameter of the distributions."""
    if isinstance(nest_with_distributions, Tensor):
        return function(nest_with_distributions)
    return nest.map_structure(
        lambda leaf: leaf.map_params(function) if isinstance(leaf, Distribution) else function(leaf),
        nest_with_distributions,
    )


def index_distributions(nest_with_distributions: Nest, index: Any) -> Nest:
    """Returns the part `index` of the batch of every tensor and distribution in the nest."""
    return map_params(lambda tensor: tensor[index], nest_with_distributions)


def stack_distributions(nests: Sequence[Nest], dim: int = 0) -> Nest:
    """Returns nests of tensors and distributions joined along a new batch dimension, as in [B] steps to [T, B].

    Args:
        nests: of the same structure, with distributions of the same kind and settings.
        dim: position of the new dimension among the batch dimensions.
    """
    if not nests:
        raise ValueError("stack_distributions needs at least one nest")
    structure = nest.structure_of(nests[0])
    rows = [nest.flatten(each) for each in nests]
    for other in nests[1:]:
        if nest.structure_of(other) != structure:
            nest.assert_same_structure(nests[0], other)
    return structure.unflatten(
        [_stack_leaf(column, position, nests[0], dim) for position, column in enumerate(zip(*rows, strict=True))]
    )


def _stack_leaf(column: tuple[Any, ...], position: int, example: Nest, dim: int) -> Any:
    """Joins the tensors or distributions at one place of the nests."""
    first = column[0]
    if not isinstance(first, Distribution):
        return torch.stack(column, dim)
    kind, settings = type(first), first.settings
    for row, other in enumerate(column):
        if type(other) is not kind or other.settings != settings:
            path = nest.flatten_with_paths(example)[position][0]
            found = other.recipe if isinstance(other, Distribution) else None
            raise ValueError(f"nest {row} has {found} at '{path}' where the first has {first.recipe}")
    params = nest.stack_nests([other.params for other in column], dim)
    return kind.from_params(params, settings)
