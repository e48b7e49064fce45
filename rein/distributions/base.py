"""What every distribution offers, and how it is taken apart into tensors and put together again.

Distributions here are plain objects over parameter tensors: nothing is validated or computed until it is asked for,
because sampling for a handful of environments costs more in bookkeeping than in arithmetic. The leading dimensions of
the parameters are batch dimensions (`[B]` or `[T, B]`), the last `event_ndims` are the event, so `log_prob` and
`entropy` always have the batch shape.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Recipe:
    """All of a distribution but its parameter tensors: enough to build one from such tensors."""

    distribution_type: type[Distribution]
    settings: Mapping[str, Any]

    def build(self, params: Mapping[str, Any]) -> Distribution:
        """Returns the distribution with the parameters `params`, as given by `Distribution.params`."""
        return self.distribution_type.from_params(params, self.settings)


class Distribution:
    """A batch of distributions over events of one shape.

    Subclasses set `event_ndims`, and list in `param_names` the attributes that hold their parameter tensors.
    Constructors take the parameters by these names plus `settings`.
    """

    param_names: ClassVar[tuple[str, ...]] = ()
    has_rsample: ClassVar[bool] = True
    has_exact_entropy: ClassVar[bool] = True
    is_discrete: ClassVar[bool] = False

    event_ndims: int

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of what `log_prob` gives for one sample."""
        raise NotImplementedError

    @property
    def event_shape(self) -> torch.Size:
        """Shape of one event."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """[batch, event] the greedy choice; see each class for what it means there."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """[batch, event] expected value."""
        raise NotImplementedError(f"{type(self).__name__} has no mean")

    @property
    def stddev(self) -> Tensor:
        """[batch, event] standard deviation of each element of the event."""
        raise NotImplementedError(f"{type(self).__name__} has no standard deviation")

    @property
    def rmode(self) -> Tensor:
        """[batch, event] the mode, with gradient to the parameters where one can be defined."""
        return self.mode

    def sample(self, sample_shape: Shape = ()) -> Tensor:
        """Returns samples without gradient, [sample_shape, batch, event]."""
        with torch.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Returns samples through which gradient reaches the parameters, [sample_shape, batch, event]."""
        raise NotImplementedError(
            f"{type(self).__name__} cannot be reparameterised; use sample() with a score-function estimator"
        )

    def log_prob(self, value: Tensor) -> Tensor:
        """Returns the log density (or mass) of `value`, [sample_shape, batch]."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """Returns the entropy in nats, [batch]."""
        raise NotImplementedError(
            f"{type(self).__name__} has no closed-form entropy; use rein.distributions.estimated_entropy"
        )

    def sample_with_log_prob(self, sample_shape: Shape = ()) -> tuple[Tensor, Tensor]:
        """Returns samples without gradient and their log-probability, which has gradient."""
        value = self.sample(sample_shape)
        return value, self.log_prob(value)

    def rsample_with_log_prob(self, sample_shape: Shape = ()) -> tuple[Tensor, Tensor]:
        """Returns reparameterised samples and their log-probability."""
        value = self.rsample(sample_shape)
        return value, self.log_prob(value)

    @property
    def base(self) -> Distribution:
        """The distribution before any squashing, clipping or truncation; itself if there is none."""
        return self

    @property
    def params(self) -> dict[str, Any]:
        """The parameter tensors by name, [batch, ...] each: what is stored instead of the distribution."""
        return {name: getattr(self, name) for name in self.param_names}

    @property
    def settings(self) -> dict[str, Any]:
        """Constructor arguments that are not batched parameters."""
        return {}

    @property
    def recipe(self) -> Recipe:
        """How to build such a distribution from other parameter tensors."""
        return Recipe(type(self), self.settings)

    @classmethod
    def from_params(cls, params: Mapping[str, Any], settings: Mapping[str, Any]) -> Self:
        """Returns the distribution that has these `params` and `settings`."""
        return cls(**params, **settings)

    def map_params(self, function: Callable[[Tensor], Tensor]) -> Self:
        """Returns the same kind of distribution with `function` applied to every parameter tensor."""
        params = {name: function(value) for name, value in self.params.items()}
        return self.from_params(params, self.settings)

    def detach(self) -> Self:
        """Returns the distribution without gradient to its parameters."""
        return self.map_params(Tensor.detach)

    def __getitem__(self, index: Any) -> Self:
        """Returns the distribution of a part of the batch; `index` acts on batch dimensions only."""
        return self.map_params(lambda tensor: tensor[index])

    def __repr__(self) -> str:
        name = type(self).__name__
        return f"{name}(batch_shape={tuple(self.batch_shape)}, event_shape={tuple(self.event_shape)})"


def sum_event(elementwise: Tensor, event_ndims: int) -> Tensor:
    """Returns [batch] the sum of [batch, event] over the event."""
    if event_ndims == 1:
        return elementwise.sum(-1)
    if event_ndims == 0:
        return elementwise
    return elementwise.flatten(-event_ndims).sum(-1)


def broadcast(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Returns views of both tensors in their common shape."""
    shape = torch.broadcast_shapes(a.shape, b.shape)  # type: ignore[no-untyped-call]
    return a.expand(shape), b.expand(shape)


class LocationScale(Distribution):
    """Shared by the distributions that start from independent normals `loc`, `scale` of the event's shape."""

    param_names = ("loc", "scale")

    def __init__(self, loc: Tensor, scale: Tensor | float, event_ndims: int) -> None:
        if not isinstance(scale, Tensor):
            scale = torch.full_like(loc, scale)
        elif scale.shape != loc.shape:
            loc, scale = broadcast(loc, scale)
        self.loc = loc
        self.scale: Tensor = scale
        self.event_ndims = event_ndims

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of what `log_prob` gives for one sample."""
        return self.loc.shape[: self.loc.ndim - self.event_ndims]

    @property
    def event_shape(self) -> torch.Size:
        """Shape of one event."""
        return self.loc.shape[self.loc.ndim - self.event_ndims :]

    @property
    def settings(self) -> dict[str, Any]:
        """Constructor arguments that are not batched parameters."""
        return {"event_ndims": self.event_ndims}

    def normal_rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Returns reparameterised samples of the underlying normals, [sample_shape, batch, event]."""
        loc = self.loc
        if sample_shape:
            noise = torch.randn(sample_shape + loc.shape, dtype=loc.dtype, device=loc.device)
        else:
            noise = torch.randn_like(loc)
        return torch.addcmul(loc, self.scale, noise)
