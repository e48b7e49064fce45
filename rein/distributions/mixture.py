"""Mixtures of distributions of one kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import torch
from torch import Tensor

from rein.distributions.base import Distribution, Recipe, Shape
from rein.distributions.categorical import Categorical


class Mixture(Distribution):
    """A choice among k components, then a sample of the chosen one.

    Args:
        mixture: the choice, batch shape [batch] and k choices.
        component: the components, batch shape [batch, k].
    """

    has_rsample = False
    has_exact_entropy = False

    def __init__(self, mixture: Categorical, component: Distribution) -> None:
        self.mixture = mixture
        self.component = component
        self.event_ndims = component.event_ndims

    @property
    def params(self) -> dict[str, Any]:
        """The parameter tensors of `mixture` and of `component`."""
        return {"mixture": self.mixture.params, "component": self.component.params}

    @property
    def settings(self) -> dict[str, Any]:
        """The recipes of `mixture` and of `component`."""
        return {"mixture": self.mixture.recipe, "component": self.component.recipe}

    @classmethod
    def from_params(cls, params: Mapping[str, Any], settings: Mapping[str, Recipe]) -> Self:
        """Returns the mixture that has these `params` and `settings`."""
        parts: dict[str, Any] = {name: settings[name].build(params[name]) for name in settings}
        return cls(**parts)

    def map_params(self, function: Callable[[Tensor], Tensor]) -> Self:
        """Returns the mixture with `function` applied to every parameter tensor."""
        return type(self)(self.mixture.map_params(function), self.component.map_params(function))

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of what `log_prob` gives for one sample."""
        return self.mixture.batch_shape

    @property
    def event_shape(self) -> torch.Size:
        """Shape of one event."""
        return self.component.event_shape

    @property
    def mode(self) -> Tensor:
        """[batch, event] the mode of the most probable component."""
        return self._select(self.component.mode, self.mixture.mode)

    @property
    def mean(self) -> Tensor:
        """[batch, event] expected value."""
        return self._average(self.component.mean)

    @property
    def stddev(self) -> Tensor:
        """[batch, event] standard deviation."""
        component_mean = self.component.mean
        deviation = component_mean - self._average(component_mean).unsqueeze(self._component_dim)
        return self._average(self.component.stddev.square() + deviation.square()).sqrt()

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Returns samples, [sample_shape, batch, event]."""
        return self._select(self.component.sample(sample_shape), self.mixture.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Returns the log density, [sample_shape, batch]."""
        of_components = self.component.log_prob(value.unsqueeze(self._component_dim))
        return torch.logsumexp(self.mixture.log_probs + of_components, -1)

    @property
    def _component_dim(self) -> int:
        return -1 - self.event_ndims

    def _select(self, values: Tensor, index: Tensor) -> Tensor:
        dim = self._component_dim
        index = index.view(index.shape + (1,) * (1 + self.event_ndims))
        index = index.expand(*index.shape[: index.ndim - self.event_ndims], *self.event_shape)
        return values.gather(dim, index).squeeze(dim)

    def _average(self, values: Tensor) -> Tensor:
        probs = self.mixture.probs
        return (probs.view(probs.shape + (1,) * self.event_ndims) * values).sum(self._component_dim)
