"""All probability on one value."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from rein.distributions.base import Distribution, Shape


class Deterministic(Distribution):
    """The distribution of a value that is certain, for policies without noise.

    Probabilities count points: `log_prob` is 0 at the value and minus infinity elsewhere, and the entropy is 0.

    Args:
        value: [batch, event].
        event_ndims: how many of the last dimensions make one event.
    """

    param_names = ("value",)

    def __init__(self, value: Tensor, *, event_ndims: int = 1) -> None:
        self.value = value
        self.event_ndims = event_ndims

    @property
    def settings(self) -> dict[str, Any]:
        """Constructor arguments that are not batched parameters."""
        return {"event_ndims": self.event_ndims}

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of what `log_prob` gives for one sample."""
        return self.value.shape[: self.value.ndim - self.event_ndims]

    @property
    def event_shape(self) -> torch.Size:
        """Shape of one event."""
        return self.value.shape[self.value.ndim - self.event_ndims :]

    @property
    def loc(self) -> Tensor:
        """[batch, event] the value."""
        return self.value

    @property
    def mode(self) -> Tensor:
        """[batch, event] the value."""
        return self.value

    @property
    def mean(self) -> Tensor:
        """[batch, event] the value."""
        return self.value

    @property
    def stddev(self) -> Tensor:
        """[batch, event] zeros."""
        return torch.zeros_like(self.value)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Returns the value, [sample_shape, batch, event]."""
        return self.value.expand(sample_shape + self.value.shape) if sample_shape else self.value

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Returns the value without gradient, [sample_shape, batch, event]."""
        return self.rsample(sample_shape).detach()

    def log_prob(self, value: Tensor) -> Tensor:
        """Returns 0 where `value` is the certain one and minus infinity elsewhere, [sample_shape, batch]."""
        equal = value == self.value
        if self.event_ndims:
            equal = equal.flatten(-self.event_ndims).all(-1)
        zero = torch.zeros((), dtype=torch.get_default_dtype(), device=equal.device)
        return torch.where(equal, zero, -torch.inf)

    def entropy(self) -> Tensor:
        """Returns zeros, [batch]."""
        return torch.zeros(self.batch_shape, device=self.value.device)
