"""Policies that draw a latent action and shape it by a flow (Haarnoja et al. 2018, arXiv:1804.02808)."""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from rein import nest
from rein.config import configurable
from rein.distributions import DiagNormal, Distribution
from rein.distributions.base import Shape
from rein.distributions.bounds import Bounds
from rein.nest import Nest
from rein.networks.actor_distribution_networks import UnitNormalActorDistributionNetwork
from rein.networks.encoding_networks import EncodingNetwork
from rein.networks.network import Network
from rein.networks.real_nvp import RealNVPNetwork
from rein.specs import BoundedTensorSpec, TensorSpec


class FlowedNormal(Distribution):
    """Independent normals, shaped by a flow and, with bounds, squashed into them by tanh.

    For actions next to their bounds only `rsample_with_log_prob` is exact: the flow would have to be undone from numbers
    that have lost their digits.
    """

    param_names = ("loc", "scale", "condition")
    has_exact_entropy = False
    event_ndims = 1

    def __init__(
        self,
        loc: Tensor,
        scale: Tensor,
        condition: Tensor,
        *,
        flow: RealNVPNetwork,
        bounds: Bounds | None,
        is_conditional: bool,
    ) -> None:
        """Keeps the parts.

        Args:
            loc: [batch, n] means of the latent action.
            scale: [batch, n] its deviations.
            condition: [batch, k] of the flow; [batch, 0] without.
            flow: from the latent action.
            bounds: to squash into; None for none.
            is_conditional: whether the flow takes the condition.
        """
        self.loc, self.scale, self.condition = loc, scale, condition
        self._flow, self._bounds, self._is_conditional = flow, bounds, is_conditional

    @property
    def settings(self) -> dict[str, Any]:
        """Constructor arguments that are not batched parameters."""
        return {"flow": self._flow, "bounds": self._bounds, "is_conditional": self._is_conditional}

    @property
    def batch_shape(self) -> torch.Size:
        """Shape of what `log_prob` gives for one sample."""
        return self.loc.shape[:-1]

    @property
    def event_shape(self) -> torch.Size:
        """Shape of one event."""
        return self.loc.shape[-1:]

    @property
    def mode(self) -> Tensor:
        """[batch, n] the image of the most likely latent action."""
        return self._squashed(self._flow.transform(self.loc, self._context())[0])[0]

    def _context(self) -> Tensor | None:
        return self.condition if self._is_conditional else None

    def _squashed(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The action, and log of the slope, [...]."""
        if self._bounds is None:
            return x, x.new_zeros(x.shape[:-1])
        slope = 2.0 * (math.log(2.0) - torch.logaddexp(x, -x)).sum(-1)
        return self._bounds.from_unit(torch.tanh(x)), slope + self._bounds.log_volume_scale(self.event_shape)

    def rsample(self, sample_shape: Shape = ()) -> Tensor:
        """Returns reparameterised samples, [sample_shape, batch, n]."""
        return self.rsample_with_log_prob(sample_shape)[0]

    def rsample_with_log_prob(self, sample_shape: Shape = ()) -> tuple[Tensor, Tensor]:
        """Returns reparameterised samples and their log density, both from the latent action."""
        base = DiagNormal(self.loc, self.scale)
        z = base.rsample(sample_shape)
        x, stretch = self._flow.transform(z, self._context())
        action, slope = self._squashed(x)
        return action, base.log_prob(z) - stretch - slope

    def sample_with_log_prob(self, sample_shape: Shape = ()) -> tuple[Tensor, Tensor]:
        """Returns samples without gradient and their log density, which has gradient."""
        value = self.sample(sample_shape)
        return value, self.log_prob(value)

    def log_prob(self, value: Tensor) -> Tensor:
        """Returns the log density, [sample_shape, batch]."""
        x = value
        if self._bounds is not None:
            to_low, to_high = self._bounds.distances(value)
            x = 0.5 * (to_low.log() - to_high.log())
        z, stretch = self._flow.inverse(x, self._context())
        return DiagNormal(self.loc, self.scale).log_prob(z) - stretch - self._squashed(x)[1]


@configurable
class LatentActorDistributionNetwork(Network):
    """A policy of one continuous action: a latent action from a prior network, shaped by a flow."""

    def __init__(
        self,
        input_tensor_spec: Nest,
        action_spec: BoundedTensorSpec,
        prior_actor_distribution_network_ctor: Callable[..., Network] = UnitNormalActorDistributionNetwork,
        normalizing_flow_network_ctor: Callable[..., RealNVPNetwork] = RealNVPNetwork,
        conditional_flow: bool = True,
        scale_distribution: bool = True,
        name: str = "LatentActorDistributionNetwork",
    ) -> None:
        """Makes the parts.

        Args:
            input_tensor_spec: nest of specs of the observation.
            action_spec: a bounded vector of floats.
            prior_actor_distribution_network_ctor: called as `ctor(input_tensor_spec=, action_spec=)`; gives normals.
            normalizing_flow_network_ctor: called as `ctor(input_tensor_spec=, conditional_input_tensor_spec=)`.
            conditional_flow: whether the flow depends on the observation.
            scale_distribution: whether actions are squashed into their bounds; else the environment clips them.
            name: of this network.
        """
        if not isinstance(action_spec, BoundedTensorSpec) or action_spec.ndim != 1 or not action_spec.is_continuous:
            raise ValueError(f"{name}: action_spec is {action_spec}: it must be one bounded vector of floats")
        super().__init__(input_tensor_spec, name=name)
        latent = TensorSpec(action_spec.shape)
        self.prior = prior_actor_distribution_network_ctor(input_tensor_spec=input_tensor_spec, action_spec=latent)
        is_vector = isinstance(input_tensor_spec, TensorSpec) and input_tensor_spec.ndim == 1
        self.encoder = (
            None if is_vector or not conditional_flow else EncodingNetwork(input_tensor_spec, fc_layer_params=(64,))
        )
        spec = input_tensor_spec if self.encoder is None else self.encoder.output_spec
        arguments = {"conditional_input_tensor_spec": TensorSpec(spec.shape)} if conditional_flow else {}
        self.flow = normalizing_flow_network_ctor(input_tensor_spec=latent, **arguments)
        self._is_conditional = conditional_flow
        self._bounds = Bounds.from_spec(action_spec) if scale_distribution else None

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[Distribution, Nest]:
        """The distribution of actions, and the new state of the prior."""
        prior, state = self.prior(inputs, state)
        prior = prior.base
        if not self._is_conditional:
            condition = prior.loc[..., :0]
        else:
            condition = nest.flatten(inputs)[0] if self.encoder is None else self.encoder(inputs)[0]
        distribution = FlowedNormal(
            prior.loc, prior.scale, condition, flow=self.flow, bounds=self._bounds, is_conditional=self._is_conditional
        )
        return distribution, state
