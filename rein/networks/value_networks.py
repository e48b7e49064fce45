"""State values V(s)."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from rein.config import configurable
from rein.nest import Nest
from rein.networks.chains import ConvLayerParams, LayerSizes
from rein.networks.layers import LSTMLayer
from rein.networks.layers.initializers import Activation, Initializer
from rein.networks.network import Network
from rein.networks.recurrent import CellCtor
from rein.networks.trunks import Memory, make_trunk, value_layer
from rein.specs import TensorSpec


class _Value(Network):
    """A trunk whose single output loses its dimension."""

    leading_dims_agnostic = True

    trunk: Network
    _squeezes: bool

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[Tensor, Nest]:
        """Maps an observation to values [..., *output shape]."""
        value, state = self.trunk(inputs, state)
        return (value.squeeze(-1) if self._squeezes else value), state

    def unroll(self, inputs: Nest, state: Nest = (), is_first: Tensor | None = None) -> tuple[Nest, Nest]:
        """Values of whole sequences; see `Network.unroll`."""
        value, state = self.trunk.unroll(inputs, state, is_first)
        return (value.squeeze(-1) if self._squeezes else value), state


@configurable
class ValueNetwork(_Value):
    """V(s), from an observation to a value."""

    def __init__(
        self,
        input_tensor_spec: Nest,
        output_tensor_spec: TensorSpec = TensorSpec(()),
        input_preprocessors: Nest = None,
        preprocessing_combiner: Callable[[Nest], Tensor] | None = None,
        conv_layer_params: ConvLayerParams = None,
        fc_layer_params: LayerSizes = None,
        activation: Activation = torch.relu_,
        kernel_initializer: Initializer | None = None,
        use_fc_bn: bool = False,
        use_fc_ln: bool = False,
        name: str = "ValueNetwork",
    ) -> None:
        """Builds the layers.

        Args:
            input_tensor_spec: nest of specs of the observation.
            output_tensor_spec: of the value: scalar, or a vector for several rewards.
            input_preprocessors: see `InputPreprocessing`.
            preprocessing_combiner: makes one tensor of a nested input; required for one.
            conv_layer_params: see `ImageEncodingNetwork`; for an image.
            fc_layer_params: sizes of the hidden layers.
            activation: of the hidden layers.
            kernel_initializer: of the hidden layers; None: by variance scaling.
            use_fc_bn: batch normalization in the hidden layers.
            use_fc_ln: layer normalization in the hidden layers.
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
            **value_layer(output_tensor_spec),
        )
        self._squeezes = output_tensor_spec.ndim == 0


@configurable
class ValueRNNNetwork(_Value):
    """V(s) with memory, from an observation to a value."""

    def __init__(
        self,
        input_tensor_spec: Nest,
        output_tensor_spec: TensorSpec = TensorSpec(()),
        input_preprocessors: Nest = None,
        preprocessing_combiner: Callable[[Nest], Tensor] | None = None,
        conv_layer_params: ConvLayerParams = None,
        fc_layer_params: LayerSizes = None,
        lstm_hidden_size: int | Sequence[int] = 100,
        value_fc_layer_params: LayerSizes = None,
        activation: Activation = torch.relu_,
        kernel_initializer: Initializer | None = None,
        name: str = "ValueRNNNetwork",
        cell: CellCtor = LSTMLayer,
    ) -> None:
        """Builds the layers.

        Args:
            input_tensor_spec: nest of specs of the observation.
            output_tensor_spec: of the value: scalar, or a vector for several rewards.
            input_preprocessors: see `InputPreprocessing`.
            preprocessing_combiner: makes one tensor of a nested input; required for one.
            conv_layer_params: see `ImageEncodingNetwork`; for an image.
            fc_layer_params: sizes of the layers before the cells.
            lstm_hidden_size: of each cell; an int is one cell.
            value_fc_layer_params: sizes of the layers after the cells.
            activation: of the hidden layers.
            kernel_initializer: of the hidden layers; None: by variance scaling.
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
            Memory(cell, lstm_hidden_size, value_fc_layer_params),
            **value_layer(output_tensor_spec),
        )
        self._squeezes = output_tensor_spec.ndim == 0
