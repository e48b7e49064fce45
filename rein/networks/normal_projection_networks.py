"""From a vector to normal distributions of actions, squashed onto their bounds or not."""

import math
from collections.abc import Callable
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rein.config import configurable
from rein.distributions import Bounds, ClippedNormal, DiagNormal, Distribution, SquashedNormal
from rein.networks.layers import FC, LearnedTensor, identity
from rein.networks.layers.initializers import Activation
from rein.networks.projection import BoundedProjectionNetwork
from rein.specs import TensorSpec


class _NormalProjection(BoundedProjectionNetwork):
    """Mean and standard deviation layers, and the choice of the distribution.

    Attributes:
        squashes_mean: whether the mean is passed through tanh.
        scales_distribution: whether the distribution itself is brought into the bounds.
        clips: whether that is done by clipping, not by tanh.
    """

    means_are_ratios: ClassVar[bool] = False
    """Whether the layer of means gives them in units of the deviation."""

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
        self.squashes_mean = squash_mean
        self.scales_distribution = scale_distribution
        self.clips = dist_squashing_transform == "clip"
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

    def deviation(self, raw: Tensor) -> Tensor:
        """The standard deviation from what its layer, or the learnt tensor in its place, gives."""
        raise NotImplementedError

    @property
    def bounds(self) -> Bounds | None:
        """The bounds of the action, if mean or distribution are brought into them."""
        return self._bounds

    def _mean_and_std(self, x: Tensor) -> tuple[Tensor, Tensor]:
        std = self.deviation(self.std(x) if self._state_dependent_std else self.std(x, 1))
        mean = self.mean(x)
        return mean * std if self.means_are_ratios else mean, std

    def distribution(self, x: Tensor) -> Distribution:
        """The normal distribution for [..., input_size], squashed onto the bounds if so chosen."""
        mean, std = self._mean_and_std(x)
        if self.action_spec.ndim != 1:
            mean, std = self._to_action_shape(mean), self._to_action_shape(std)
        event = self.action_spec.ndim
        if self.squashes_mean:
            mean = torch.tanh(mean)
            if not self.scales_distribution:
                mean = self._bounds.from_unit(mean)
        if not self.scales_distribution:
            return DiagNormal(mean, std, event_ndims=event)
        if self.clips:
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

    def deviation(self, raw: Tensor) -> Tensor:
        """See `std_transform`."""
        return self._std_transform(raw)


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

    means_are_ratios = True

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

    def deviation(self, raw: Tensor) -> Tensor:
        """One over the transformed number, within its limits."""
        inverse_std = self._transform(raw)
        if self._min_inverse_std > 0 or self._max_inverse_std < math.inf:
            inverse_std = inverse_std.clamp(self._min_inverse_std, self._max_inverse_std)
        return 1 / inverse_std
