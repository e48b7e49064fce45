"""Stochastic policies: an encoder and one projection network for each action."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rein import nest
from rein.config import configurable
from rein.distributions import DiagNormal, Distribution
from rein.nest import Nest
from rein.networks.action_masks import forbid_in, mask_path
from rein.networks.chains import ConvLayerParams, LayerSizes, vector_size
from rein.networks.item_paths import pack_items
from rein.networks.layers import LSTMLayer
from rein.networks.layers.initializers import Activation, Initializer
from rein.networks.network import Network
from rein.networks.projection_networks import (
    CategoricalProjectionNetwork,
    NormalProjectionNetwork,
    ProjectionCtor,
)
from rein.networks.recurrent import CellCtor
from rein.networks.trunks import Memory, make_trunk
from rein.specs import TensorSpec


class _DistributionHeads(Network):
    """A trunk and one projection network for each action of a nest."""

    leading_dims_agnostic = True

    trunk: Network

    def _build_heads(
        self,
        action_spec: Nest,
        discrete_projection_net_ctor: ProjectionCtor,
        continuous_projection_net_ctor: ProjectionCtor,
    ) -> None:
        size = vector_size(self.trunk.output_spec, self.name)
        self._action_spec = action_spec
        self._mask_path = mask_path(self.input_tensor_spec, action_spec)

        def build(spec: TensorSpec) -> Network:
            discrete = spec.is_discrete
            ctor = discrete_projection_net_ctor if discrete else continuous_projection_net_ctor
            return ctor(size, action_spec=spec)

        self.projections = nn.ModuleList(build(spec) for spec in nest.flatten(action_spec))
        if not len(self.projections):
            raise ValueError(f"{self.name}: action_spec is empty")

    def _distributions(self, x: Tensor, inputs: Nest) -> Nest:
        if isinstance(self._action_spec, TensorSpec):
            return forbid_in(self.projections[0](x)[0], inputs, self._mask_path)
        results = [projection(x)[0] for projection in self.projections]
        return pack_items(self._action_spec, results)

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[Nest, Nest]:
        """A nest of action distributions with batch shape [...]."""
        x, state = self.trunk(inputs, state)
        return self._distributions(x, inputs), state

    def unroll(self, inputs: Nest, state: Nest = (), is_first: Tensor | None = None) -> tuple[Nest, Nest]:
        """Distributions of whole sequences, batch shape [B, T]; see `Network.unroll`."""
        x, state = self.trunk.unroll(inputs, state, is_first)
        return self._distributions(x, inputs), state


@configurable
class ActorDistributionNetwork(_DistributionHeads):
    """A stochastic policy for any nest of discrete and continuous actions."""

    def __init__(
        self,
        input_tensor_spec: Nest,
        action_spec: Nest,
        input_preprocessors: Nest = None,
        preprocessing_combiner: Callable[[Nest], Tensor] | None = None,
        conv_layer_params: ConvLayerParams = None,
        fc_layer_params: LayerSizes = None,
        activation: Activation = torch.relu_,
        kernel_initializer: Initializer | None = None,
        use_fc_bn: bool = False,
        use_fc_ln: bool = False,
        discrete_projection_net_ctor: ProjectionCtor = CategoricalProjectionNetwork,
        continuous_projection_net_ctor: ProjectionCtor = NormalProjectionNetwork,
        name: str = "ActorDistributionNetwork",
    ) -> None:
        """Builds the layers.

        Args:
            input_tensor_spec: nest of specs of the observation.
            action_spec: nest of specs of the actions.
            input_preprocessors: see `InputPreprocessing`.
            preprocessing_combiner: makes one tensor of a nested input; required for one.
            conv_layer_params: see `ImageEncodingNetwork`; for an image.
            fc_layer_params: sizes of the hidden layers.
            activation: of the hidden layers.
            kernel_initializer: of the hidden layers; None: by variance scaling.
            use_fc_bn: batch normalization in the hidden layers.
            use_fc_ln: layer normalization in the hidden layers.
            discrete_projection_net_ctor: called as ``ctor(input_size, action_spec=spec)`` for discrete actions.
            continuous_projection_net_ctor: the same for continuous actions.
            name: of this network.
        """
        super().__init__(input_tensor_spec, name=name)
        self.trunk = make_trunk(
            input_tensor_spec,
            input_preprocessors,
            preprocessing_combiner,
            conv_layer_params,
            fc_layer_params,
            activation,
            kernel_initializer,
            f"{name}.trunk",
            use_fc_bn=use_fc_bn,
            use_fc_ln=use_fc_ln,
        )
        self._build_heads(action_spec, discrete_projection_net_ctor, continuous_projection_net_ctor)


@configurable
class ActorDistributionRNNNetwork(_DistributionHeads):
    """A stochastic policy with memory for any nest of discrete and continuous actions."""

    def __init__(
        self,
        input_tensor_spec: Nest,
        action_spec: Nest,
        input_preprocessors: Nest = None,
        preprocessing_combiner: Callable[[Nest], Tensor] | None = None,
        conv_layer_params: ConvLayerParams = None,
        fc_layer_params: LayerSizes = None,
        lstm_hidden_size: int | Sequence[int] = 100,
        actor_fc_layer_params: LayerSizes = None,
        activation: Activation = torch.relu_,
        kernel_initializer: Initializer | None = None,
        discrete_projection_net_ctor: ProjectionCtor = CategoricalProjectionNetwork,
        continuous_projection_net_ctor: ProjectionCtor = NormalProjectionNetwork,
        name: str = "ActorDistributionRNNNetwork",
        cell: CellCtor = LSTMLayer,
    ) -> None:
        """Builds the layers.

        Args:
            input_tensor_spec: nest of specs of the observation.
            action_spec: nest of specs of the actions.
            input_preprocessors: see `InputPreprocessing`.
            preprocessing_combiner: makes one tensor of a nested input; required for one.
            conv_layer_params: see `ImageEncodingNetwork`; for an image.
            fc_layer_params: sizes of the layers before the cells.
            lstm_hidden_size: of each cell; an int is one cell.
            actor_fc_layer_params: sizes of the layers after the cells.
            activation: of the hidden layers.
            kernel_initializer: of the hidden layers; None: by variance scaling.
            discrete_projection_net_ctor: called as ``ctor(input_size, action_spec=spec)`` for discrete actions.
            continuous_projection_net_ctor: the same for continuous actions.
            name: of this network.
            cell: makes each recurrent layer, called as ``cell(input_size, hidden_size)``: see `CellCtor`.
        """
        super().__init__(input_tensor_spec, name=name)
        self.trunk = make_trunk(
            input_tensor_spec,
            input_preprocessors,
            preprocessing_combiner,
            conv_layer_params,
            fc_layer_params,
            activation,
            kernel_initializer,
            f"{name}.trunk",
            Memory(cell, lstm_hidden_size, actor_fc_layer_params),
        )
        self._build_heads(action_spec, discrete_projection_net_ctor, continuous_projection_net_ctor)


@configurable
class UnitNormalActorDistributionNetwork(Network):
    """Standard normals whatever the observation: the prior of a latent action."""

    leading_dims_agnostic = True

    def __init__(
        self,
        input_tensor_spec: Nest,
        action_spec: TensorSpec,
        name: str = "UnitNormalActorDistributionNetwork",
    ) -> None:
        """Keeps the specs.

        Args:
            input_tensor_spec: nest of specs of the observation.
            action_spec: a continuous action of any shape.
            name: of this network.
        """
        super().__init__(input_tensor_spec, name=name)
        if not isinstance(action_spec, TensorSpec) or not action_spec.is_continuous:
            raise ValueError(f"{name}: needs one continuous action, got {action_spec}")
        self._action_spec = action_spec

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[Distribution, Nest]:
        """Standard normals with the leading dimensions of the input."""
        leaf: Any = nest.flatten(inputs)[0]
        spec: TensorSpec = nest.flatten(self._input_tensor_spec)[0]
        lead = leaf.shape[: leaf.ndim - spec.ndim]
        shape = (*lead, *self._action_spec.shape)
        zeros = torch.zeros(shape, dtype=self._action_spec.dtype, device=leaf.device)
        return DiagNormal(zeros, torch.ones_like(zeros), event_ndims=self._action_spec.ndim), state
