"""From a vector to a distribution of actions: the last part of a policy."""

import math
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rein.config import configurable
from rein.distributions import (
    Beta,
    Categorical,
    Distribution,
    Mixture,
    MultiCategorical,
    OneHotCategorical,
    OneHotCategoricalGumbelSoftmax,
    OneHotCategoricalStraightThrough,
    TruncatedNormal,
)
from rein.networks.layers import FC, LearnedTensor
from rein.networks.normal_projection_networks import (
    NormalProjectionNetwork,
    StableNormalProjectionNetwork,
)
from rein.networks.projection import BoundedProjectionNetwork, ProjectionCtor, ProjectionNetwork
from rein.specs import BoundedTensorSpec, TensorSpec

__all__ = [
    "BetaProjectionNetwork",
    "CategoricalProjectionNetwork",
    "MixtureProjectionNetwork",
    "NormalProjectionNetwork",
    "OnehotCategoricalProjectionNetwork",
    "ProjectionCtor",
    "ProjectionNetwork",
    "StableNormalProjectionNetwork",
    "TruncatedProjectionNetwork",
]


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
    """One-hot choices of the size of the action vector, with a gradient through samples unless they are plain."""

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
            mode: "st" is the straight-through estimator, "st-gumbel" that of the Gumbel softmax; "gumbel" gives relaxed
                samples of the latter; with "plain" no gradient passes through samples.
            temperature: of the Gumbel softmax.
            name: of this network.
        """
        super().__init__(input_size, action_spec, name)
        if action_spec.ndim != 1 or not action_spec.is_continuous:
            raise ValueError(f"{name}: needs a vector of floats, got {action_spec}")
        if mode not in ("st", "st-gumbel", "gumbel", "plain"):
            raise ValueError(f"{name}: mode is {mode!r}; choose 'st', 'st-gumbel', 'gumbel' or 'plain'")
        self._mode = mode
        self._temperature = temperature
        self.logits = FC(input_size, action_spec.numel, kernel_init_gain=logits_init_output_factor)

    def distribution(self, x: Tensor) -> Distribution:
        """The one-hot distribution for [..., input_size]."""
        logits = self.logits(x)
        if self._mode == "plain":
            return OneHotCategorical(logits=logits)
        if self._mode == "st":
            return OneHotCategoricalStraightThrough(logits=logits)
        return OneHotCategoricalGumbelSoftmax(
            logits=logits, temperature=self._temperature, hard=self._mode == "st-gumbel"
        )


@configurable
class BetaProjectionNetwork(BoundedProjectionNetwork):
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
class TruncatedProjectionNetwork(BoundedProjectionNetwork):
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
