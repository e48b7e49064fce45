"""From a vector to a distribution of actions: the last part of a policy."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rein.config import configurable
from rein.distributions import (
    Beta,
    Bounds,
    Categorical,
    ClippedNormal,
    DiagNormal,
    Distribution,
    Mixture,
    MultiCategorical,
    OneHotCategoricalGumbelSoftmax,
    OneHotCategoricalStraightThrough,
    SquashedNormal,
    TruncatedNormal,
)
from rein.nest import Nest
from rein.networks.dry_run import device_of
from rein.networks.layers import FC, LearnedTensor, identity
from rein.networks.layers.initializers import Activation
from rein.networks.network import Network
from rein.specs import BoundedTensorSpec, TensorSpec

ProjectionCtor = Callable[..., Network]


class ProjectionNetwork(Network):
    """A network from vectors [..., input_size] to distributions of actions of one spec."""

    leading_dims_agnostic = True

    def __init__(self, input_size: int, action_spec: TensorSpec, name: str) -> None:
        super().__init__(TensorSpec((input_size,)), name=name)
        if not isinstance(action_spec, TensorSpec):
            raise TypeError(f"{name}: action_spec must be one spec, got {action_spec!r}")
        self.input_size = input_size
        self.action_spec = action_spec

    def distribution(self, x: Tensor) -> Distribution:
        """The distribution for [..., input_size], with batch shape [...]."""
        raise NotImplementedError

    def forward(self, inputs: Tensor, state: Nest = ()) -> tuple[Distribution, Nest]:
        """The distribution for [..., input_size], and the state as it was."""
        return self.distribution(inputs), state

    def _to_action_shape(self, x: Tensor) -> Tensor:
        """From [..., numel] to [..., *action shape]."""
        shape = self.action_spec.shape
        return x if len(shape) == 1 else x.reshape(*x.shape[:-1], *shape)


def _choices(action_spec: TensorSpec, name: str) -> list[int]:
    """The number of values of each element of a discrete action."""
    if not action_spec.is_discrete or not isinstance(action_spec, BoundedTensorSpec):
        raise ValueError(f"{name}: needs a bounded discrete action, got {action_spec}")
    if action_spec.ndim > 1:
        raise ValueError(f"{name}: a discrete action is a scalar or a vector, got {action_spec}")
    if (action_spec.minimum != 0).any():
        raise ValueError(f"{name}: discrete actions start at 0, got minimum {action_spec.minimum}")
    sizes = (action_spec.maximum - action_spec.minimum + 1).reshape(-1)
    return [int(size) for size in sizes]


@configurable
class CategoricalProjectionNetwork(ProjectionNetwork):
    """Logits of a discrete action: `Categorical` for a scalar, `MultiCategorical` for a vector."""

    def __init__(
        self,
        input_size: int,
        action_spec: BoundedTensorSpec,
        logits_init_output_factor: float = 0.1,
        name: str = "CategoricalProjectionNetwork",
    ) -> None:
        """Builds the layer of logits.

        Args:
            input_size: length of the input vector.
            action_spec: a discrete scalar, or a vector of discrete choices, from 0.
            logits_init_output_factor: gain of the initial weights; small is near uniform.
            name: of this network.
        """
        super().__init__(input_size, action_spec, name)
        self._choices = tuple(_choices(action_spec, name))
        self.logits = FC(input_size, sum(self._choices), kernel_init_gain=logits_init_output_factor)

    def distribution(self, x: Tensor) -> Distribution:
        """The categorical distribution for [..., input_size]."""
        logits = self.logits(x)
        if self.action_spec.ndim == 0:
            return Categorical(logits=logits)
        return MultiCategorical(logits, self._choices)


@configurable
class OnehotCategoricalProjectionNetwork(ProjectionNetwork):
    """One-hot choices of the size of the action vector, with a gradient through samples."""

    def __init__(
        self,
        input_size: int,
        action_spec: TensorSpec,
        logits_init_output_factor: float = 0.1,
        mode: str = "st",
        temperature: float = 1.0,
        name: str = "OnehotCategoricalProjectionNetwork",
    ) -> None:
        """Builds the layer of logits.

        Args:
            input_size: length of the input vector.
            action_spec: [n] floats that hold a one-hot code.
            logits_init_output_factor: gain of the initial weights; small is near uniform.
            mode: "st" is the straight-through estimator, "st-gumbel" that of the Gumbel softmax.
            temperature: of the Gumbel softmax.
            name: of this network.
        """
        super().__init__(input_size, action_spec, name)
        if action_spec.ndim != 1 or not action_spec.is_continuous:
            raise ValueError(f"{name}: needs a vector of floats, got {action_spec}")
        if mode not in ("st", "st-gumbel"):
            raise ValueError(f"{name}: mode is {mode!r}; choose 'st' or 'st-gumbel'")
        self._mode = mode
        self._temperature = temperature
        self.logits = FC(input_size, action_spec.numel, kernel_init_gain=logits_init_output_factor)

    def distribution(self, x: Tensor) -> Distribution:
        """The one-hot distribution for [..., input_size]."""
        if self._mode == "st":
            return OneHotCategoricalStraightThrough(logits=self.logits(x))
        return OneHotCategoricalGumbelSoftmax(logits=self.logits(x), temperature=self._temperature)


class _BoundedProjection(ProjectionNetwork):
    """Keeps the bounds of a continuous action on the device of the parameters."""

    def __init__(self, input_size: int, action_spec: TensorSpec, needs_bounds: bool, name: str) -> None:
        super().__init__(input_size, action_spec, name)
        if not action_spec.is_continuous:
            raise ValueError(f"{name}: needs a continuous action, got {action_spec}")
        if needs_bounds and not isinstance(action_spec, BoundedTensorSpec):
            raise ValueError(
                f"{name}: these settings need an action with bounds, got {action_spec}; give a "
                "BoundedTensorSpec, or set squash_mean=False and scale_distribution=False"
            )
        self._needs_bounds = needs_bounds
        self._bounds: Any = self._make_bounds()

    def _make_bounds(self) -> Bounds | None:
        if not self._needs_bounds:
            return None
        assert isinstance(self.action_spec, BoundedTensorSpec)
        return Bounds.from_spec(self.action_spec, device=device_of(self))

    def _apply(self, fn: Any, recurse: bool = True) -> Self:
        result: Self = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._bounds = self._make_bounds()
        return result


class _NormalProjection(_BoundedProjection):
    """Mean and standard deviation layers, and the choice of the distribution."""

    def __init__(
        self,
        input_size: int,
        action_spec: TensorSpec,
        activation: Activation,
        projection_output_init_gain: float,
        squash_mean: bool,
        state_dependent_std: bool,
        std_bias: float,
        scale_distribution: bool,
        dist_squashing_transform: str,
        name: str,
    ) -> None:
        super().__init__(input_size, action_spec, squash_mean or scale_distribution, name)
        if dist_squashing_transform not in ("tanh", "clip"):
            raise ValueError(
                f"{name}: dist_squashing_transform is {dist_squashing_transform!r}; choose 'tanh' or 'clip'"
            )
        if projection_output_init_gain < 0:
            raise ValueError(
                f"{name}: projection_output_init_gain must not be negative, got {projection_output_init_gain}"
            )
        self._squash_mean = squash_mean
        self._scale_distribution = scale_distribution
        self._clips = dist_squashing_transform == "clip"
        size = action_spec.numel
        self.mean = FC(input_size, size, activation, kernel_init_gain=projection_output_init_gain)
        self._state_dependent_std = state_dependent_std
        self.std: nn.Module
        if state_dependent_std:
            self.std = FC(
                input_size,
                size,
                kernel_init_gain=projection_output_init_gain,
                bias_init_value=std_bias,
            )
        else:
            self.std = LearnedTensor((size,), std_bias)

    def _mean_and_std(self, x: Tensor) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    def distribution(self, x: Tensor) -> Distribution:
        """The normal distribution for [..., input_size], squashed onto the bounds if so chosen."""
        mean, std = self._mean_and_std(x)
        if self.action_spec.ndim != 1:
            mean, std = self._to_action_shape(mean), self._to_action_shape(std)
        event = self.action_spec.ndim
        if self._squash_mean:
            mean = torch.tanh(mean)
            if not self._scale_distribution:
                mean = self._bounds.from_unit(mean)
        if not self._scale_distribution:
            return DiagNormal(mean, std, event_ndims=event)
        if self._clips:
            return ClippedNormal(mean, std, self._bounds, event_ndims=event)
        return SquashedNormal(mean, std, self._bounds, event_ndims=event)


@configurable
class NormalProjectionNetwork(_NormalProjection):
    """Mean and standard deviation of independent normals, optionally squashed onto the action's bounds."""

    def __init__(
        self,
        input_size: int,
        action_spec: TensorSpec,
        activation: Activation = identity,
        projection_output_init_gain: float = 0.3,
        std_bias_initializer_value: float = 0.0,
        squash_mean: bool = True,
        state_dependent_std: bool = False,
        std_transform: Callable[[Tensor], Tensor] = F.softplus,
        scale_distribution: bool = False,
        dist_squashing_transform: str = "tanh",
        name: str = "NormalProjectionNetwork",
    ) -> None:
        """Builds the layers.

        Args:
            input_size: length of the input vector.
            action_spec: a continuous action of any shape.
            activation: of the layer of means.
            projection_output_init_gain: gain of the initial weights.
            std_bias_initializer_value: initial value of what `std_transform` is applied to.
            squash_mean: pass the mean through tanh, onto the bounds (or onto [-1, 1] before the squashing of
                the distribution, if that is chosen too).
            state_dependent_std: a layer for the standard deviations in place of learnt constants.
            std_transform: makes a positive number of a real one.
            scale_distribution: squash the distribution itself onto the bounds.
            dist_squashing_transform: "tanh" (`SquashedNormal`) or "clip" (`ClippedNormal`).
            name: of this network.
        """
        super().__init__(
            input_size,
            action_spec,
            activation,
            projection_output_init_gain,
            squash_mean,
            state_dependent_std,
            std_bias_initializer_value,
            scale_distribution,
            dist_squashing_transform,
            name,
        )
        self._std_transform = std_transform

    def _mean_and_std(self, x: Tensor) -> tuple[Tensor, Tensor]:
        std = self.std(x) if self._state_dependent_std else self.std(x, 1)
        return self.mean(x), self._std_transform(std)


def _inverse_softplus(y: float) -> float:
    return y + math.log(-math.expm1(-y))


_POSITIVE_TRANSFORMS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[float], float]]] = {
    "softplus": (F.softplus, _inverse_softplus),
    "exp": (torch.exp, math.log),
}


@configurable
class StableNormalProjectionNetwork(_NormalProjection):
    """A normal given by ``mean / std`` and ``1 / std``, whose log-density has tame gradients.

    With u = mean / std and v = 1 / std, log p(a) = -(a v - u)^2 / 2 + log v: no division by a small std.
    """

    def __init__(
        self,
        input_size: int,
        action_spec: TensorSpec,
        activation: Activation = identity,
        projection_output_init_gain: float = 1e-5,
        squash_mean: bool = True,
        state_dependent_std: bool = False,
        inverse_std_transform: str = "softplus",
        scale_distribution: bool = False,
        init_std: float = 1.0,
        min_std: float = 0.0,
        max_std: float | None = None,
        dist_squashing_transform: str = "tanh",
        name: str = "StableNormalProjectionNetwork",
    ) -> None:
        """Builds the layers.

        Args:
            input_size: length of the input vector.
            action_spec: a continuous action of any shape.
            activation: of the layer of means.
            projection_output_init_gain: gain of the initial weights.
            squash_mean: pass the mean through tanh, onto the bounds.
            state_dependent_std: a layer for the standard deviations in place of learnt constants.
            inverse_std_transform: "softplus" or "exp", makes 1 / std of a real number.
            scale_distribution: squash the distribution itself onto the bounds.
            init_std: initial standard deviation.
            min_std: lower limit of the standard deviation.
            max_std: upper limit of the standard deviation; None: none.
            dist_squashing_transform: "tanh" (`SquashedNormal`) or "clip" (`ClippedNormal`).
            name: of this network.
        """
        if not 0 <= min_std < init_std or (max_std is not None and max_std <= init_std):
            raise ValueError(f"{name}: needs 0 <= min_std < init_std < max_std, got {min_std}, {init_std}, {max_std}")
        if inverse_std_transform not in _POSITIVE_TRANSFORMS:
            raise ValueError(f"{name}: inverse_std_transform is {inverse_std_transform!r}; choose 'softplus' or 'exp'")
        transform, inverse = _POSITIVE_TRANSFORMS[inverse_std_transform]
        super().__init__(
            input_size,
            action_spec,
            activation,
            projection_output_init_gain,
            squash_mean,
            state_dependent_std,
            inverse(1 / init_std),
            scale_distribution,
            dist_squashing_transform,
            name,
        )
        self._transform = transform
        self._min_inverse_std = 0.0 if max_std is None else 1 / max_std
        self._max_inverse_std = math.inf if min_std == 0 else 1 / min_std

    def _mean_and_std(self, x: Tensor) -> tuple[Tensor, Tensor]:
        raw = self.std(x) if self._state_dependent_std else self.std(x, 1)
        inverse_std = self._transform(raw)
        if self._min_inverse_std > 0 or self._max_inverse_std < math.inf:
            inverse_std = inverse_std.clamp(self._min_inverse_std, self._max_inverse_std)
        std = 1 / inverse_std
        return self.mean(x) * std, std


@configurable
class BetaProjectionNetwork(_BoundedProjection):
    """Independent beta distributions on the bounds of a continuous action."""

    def __init__(
        self,
        input_size: int,
        action_spec: BoundedTensorSpec,
        activation: Callable[[Tensor], Tensor] = F.softplus,
        min_concentration: float = 0.0,
        max_concentration: float | None = None,
        projection_output_init_gain: float = 0.0,
        bias_init_value: float = 0.541324854612918,
        name: str = "BetaProjectionNetwork",
    ) -> None:
        """Builds the layer of concentrations.

        Args:
            input_size: length of the input vector.
            action_spec: a continuous action with bounds.
            activation: makes a positive number of a real one.
            min_concentration: added to both concentrations; 1 keeps the density finite.
            max_concentration: upper limit of both; None: none.
            projection_output_init_gain: gain of the initial weights.
            bias_init_value: initial bias; the default makes both concentrations 1, the uniform distribution.
            name: of this network.
        """
        super().__init__(input_size, action_spec, True, name)
        if min_concentration < 0:
            raise ValueError(f"{name}: min_concentration must not be negative")
        if max_concentration is not None and max_concentration <= min_concentration:
            raise ValueError(f"{name}: max_concentration {max_concentration} must exceed {min_concentration}")
        self._activation = activation
        self._min_concentration = min_concentration
        self._max_concentration = max_concentration
        self.concentrations = FC(
            input_size,
            2 * action_spec.numel,
            kernel_init_gain=projection_output_init_gain,
            bias_init_value=bias_init_value,
        )

    def distribution(self, x: Tensor) -> Distribution:
        """The beta distribution for [..., input_size]."""
        concentrations = self._activation(self.concentrations(x)) + self._min_concentration
        if self._max_concentration is not None:
            concentrations = concentrations.clamp(max=self._max_concentration)
        one, zero = concentrations.chunk(2, -1)
        return Beta(
            self._to_action_shape(one),
            self._to_action_shape(zero),
            self._bounds,
            event_ndims=self.action_spec.ndim,
        )


@configurable
class TruncatedProjectionNetwork(_BoundedProjection):
    """Independent normals cut off at the bounds of a continuous action and renormalized."""

    def __init__(
        self,
        input_size: int,
        action_spec: BoundedTensorSpec,
        projection_output_init_gain: float = 0.3,
        min_scale: float = 1e-3,
        max_scale: float | None = None,
        init_scale: float = 0.5,
        state_dependent_scale: bool = True,
        name: str = "TruncatedProjectionNetwork",
    ) -> None:
        """Builds the layers.

        Args:
            input_size: length of the input vector.
            action_spec: a continuous action with bounds.
            projection_output_init_gain: gain of the initial weights.
            min_scale: lower limit of the scale, in units of half the distance of the bounds.
            max_scale: upper limit of the scale, in the same units; None: none.
            init_scale: initial scale, in the same units.
            state_dependent_scale: a layer for the scales in place of learnt constants.
            name: of this network.
        """
        super().__init__(input_size, action_spec, True, name)
        if not 0 < min_scale < init_scale or (max_scale is not None and max_scale <= init_scale):
            raise ValueError(
                f"{name}: needs 0 < min_scale < init_scale < max_scale, got {min_scale}, {init_scale}, {max_scale}"
            )
        size, gain = action_spec.numel, projection_output_init_gain
        self._min_scale = min_scale
        self._max_scale = max_scale
        bias = math.log(math.expm1(init_scale - min_scale))
        self.loc = FC(input_size, size, kernel_init_gain=gain)
        self._state_dependent = state_dependent_scale
        self.scale: nn.Module
        if state_dependent_scale:
            self.scale = FC(input_size, size, kernel_init_gain=gain, bias_init_value=bias)
        else:
            self.scale = LearnedTensor((size,), bias)

    def distribution(self, x: Tensor) -> Distribution:
        """The truncated normal distribution for [..., input_size]."""
        raw = self.scale(x) if self._state_dependent else self.scale(x, 1)
        scale = F.softplus(raw) + self._min_scale
        if self._max_scale is not None:
            scale = scale.clamp(max=self._max_scale)
        loc = self._to_action_shape(torch.tanh(self.loc(x)))
        bounds = self._bounds
        return TruncatedNormal(
            bounds.from_unit(loc),
            self._to_action_shape(scale) * bounds.half_width,
            bounds,
            event_ndims=self.action_spec.ndim,
        )


@configurable
class MixtureProjectionNetwork(ProjectionNetwork):
    """A mixture of `num_components` distributions, each by its own projection network."""

    def __init__(
        self,
        input_size: int,
        action_spec: TensorSpec,
        num_components: int,
        component_ctor: ProjectionCtor = NormalProjectionNetwork,
        name: str = "MixtureProjectionNetwork",
    ) -> None:
        """Builds the components.

        Args:
            input_size: length of the input vector.
            action_spec: of the action.
            num_components: in the mixture, at least 1.
            component_ctor: called as ``component_ctor(input_size, action_spec)`` for each.
            name: of this network.
        """
        super().__init__(input_size, action_spec, name)
        self.weights = FC(input_size, num_components, kernel_init_gain=0.1)
        self.components = nn.ModuleList(component_ctor(input_size, action_spec) for _ in range(num_components))

    def distribution(self, x: Tensor) -> Distribution:
        """The mixture for [..., input_size]."""
        parts: Sequence[Distribution] = [component(x)[0] for component in self.components]
        dim = x.ndim - 1
        params = {key: torch.stack([part.params[key] for part in parts], dim) for key in parts[0].params}
        return Mixture(Categorical(logits=self.weights(x)), parts[0].recipe.build(params))
