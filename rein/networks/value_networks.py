"""State values V(s)."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from rein.config import configurable
from rein.nest import Nest
from rein.networks.chains import ConvLayerParams, LayerSizes, small_uniform
from rein.networks.encoding_networks import EncodingNetwork, LSTMEncodingNetwork
from rein.networks.layers import identity
from rein.networks.layers.initializers import Activation, Initializer
from rein.networks.network import Network
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
        self.trunk = EncodingNetwork(
            input_tensor_spec,
            output_tensor_spec=output_tensor_spec if output_tensor_spec.ndim > 1 else None,
            input_preprocessors=input_preprocessors,
            preprocessing_combiner=preprocessing_combiner,
            conv_layer_params=conv_layer_params,
            fc_layer_params=fc_layer_params,
            activation=activation,
            kernel_initializer=kernel_initializer,
            use_fc_bn=use_fc_bn,
            use_fc_ln=use_fc_ln,
            last_layer_size=output_tensor_spec.numel,
            last_activation=identity,
            last_kernel_initializer=small_uniform,
            name=f"{name}.trunk",
        )
        self._squeezes = output_tensor_spec.ndim == 0


@configurable
class ValueRNNNetwork(_Value):
    """V(s) with LSTM memory, from an observation to a value."""

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
    ) -> None:
        """Builds the layers.

        Args:
            input_tensor_spec: nest of specs of the observation.
            output_tensor_spec: of the value: scalar, or a vector for several rewards.
            input_preprocessors: see `InputPreprocessing`.
            preprocessing_combiner: makes one tensor of a nested input; required for one.
            conv_layer_params: see `ImageEncodingNetwork`; for an image.
            fc_layer_params: sizes of the layers before the LSTM.
            lstm_hidden_size: of each LSTM layer; an int is one layer.
            value_fc_layer_params: sizes of the layers after the LSTM.
            activation: of the hidden layers.
            kernel_initializer: of the hidden layers; None: by variance scaling.
            name: of this network.
        """
        super().__init__(input_tensor_spec, name=name)
        self.trunk = LSTMEncodingNetwork(
            input_tensor_spec,
            output_tensor_spec=output_tensor_spec if output_tensor_spec.ndim > 1 else None,
            input_preprocessors=input_preprocessors,
            preprocessing_combiner=preprocessing_combiner,
            conv_layer_params=conv_layer_params,
            pre_fc_layer_params=fc_layer_params,
            hidden_size=lstm_hidden_size,
            post_fc_layer_params=value_fc_layer_params,
            activation=activation,
            kernel_initializer=kernel_initializer,
            last_layer_size=output_tensor_spec.numel,
            last_activation=identity,
            last_kernel_initializer=small_uniform,
            name=f"{name}.trunk",
        )
        self._squeezes = output_tensor_spec.ndim == 0
