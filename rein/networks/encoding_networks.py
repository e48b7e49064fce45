"""Encoders: any input to one vector, without and with memory."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from rein.config import configurable
from rein.nest import Nest
from rein.networks.chains import (
    Chain,
    ConvLayerParams,
    LayerSizes,
    fc_chain,
    last_fc,
    vector_size,
)
from rein.networks.image_networks import ImageEncodingNetwork
from rein.networks.layers import GRULayer, LSTMLayer, RecurrentCell, Reshape
from rein.networks.layers.initializers import Activation, Initializer
from rein.networks.network import Network
from rein.networks.preprocessing import make_preprocessing
from rein.networks.recurrent import CellCtor
from rein.networks.spec_encoders import fitting_inputs
from rein.specs import TensorSpec


def _check_last_layer(name: str, last_layer_size: int | None, last_activation: Activation | None) -> None:
    if (last_layer_size is None) != (last_activation is None):
        raise ValueError(
            f"{name}: last_layer_size and last_activation must be given together, got {last_layer_size} and "
            f"{last_activation}"
        )


@configurable
class EncodingNetwork(Network):
    """Preprocessors, convolutional layers, fully connected layers: any input to one tensor."""

    leading_dims_agnostic = True

    def __init__(
        self,
        input_tensor_spec: Nest,
        output_tensor_spec: TensorSpec | None = None,
        input_preprocessors: Nest = None,
        preprocessing_combiner: Callable[[Nest], Tensor] | None = None,
        conv_layer_params: ConvLayerParams = None,
        fc_layer_params: LayerSizes = None,
        activation: Activation = torch.relu_,
        kernel_initializer: Initializer | None = None,
        use_fc_bn: bool = False,
        use_fc_ln: bool = False,
        last_layer_size: int | None = None,
        last_activation: Activation | None = None,
        last_kernel_initializer: Initializer | None = None,
        last_use_fc_bn: bool = False,
        last_use_fc_ln: bool = False,
        name: str = "EncodingNetwork",
    ) -> None:
        """Builds the layers.

        Args:
            input_tensor_spec: nest of specs of the input.
            output_tensor_spec: the output is reshaped to it; its size must be that of the last layer.
            input_preprocessors: see `InputPreprocessing`.
            preprocessing_combiner: makes one tensor of a nested input. If neither this nor the two beside it are given,
                the parts are encoded as `encoder_for` says and concatenated.
            conv_layer_params: see `ImageEncodingNetwork`; for an image.
            fc_layer_params: sizes of the fully connected layers.
            activation: of all layers but the last.
            kernel_initializer: fills a weight in place; None: by variance scaling.
            use_fc_bn: batch normalization in the fully connected layers.
            use_fc_ln: layer normalization in the fully connected layers.
            last_layer_size: size of an additional last layer; None: none.
            last_activation: of the last layer.
            last_kernel_initializer: of the last layer.
            last_use_fc_bn: batch normalization in the last layer.
            last_use_fc_ln: layer normalization in the last layer.
            name: of this network.
        """
        super().__init__(input_tensor_spec, name=name)
        _check_last_layer(name, last_layer_size, last_activation)
        has_fc = bool(fc_layer_params) or last_layer_size is not None
        if has_fc:
            input_preprocessors, preprocessing_combiner = fitting_inputs(
                input_tensor_spec, input_preprocessors, preprocessing_combiner, conv_layer_params
            )
        self.preprocessing, spec = make_preprocessing(
            input_tensor_spec, input_preprocessors, preprocessing_combiner, name
        )
        parts: list[nn.Module] = []
        if conv_layer_params:
            image = ImageEncodingNetwork(
                spec,
                conv_layer_params,
                activation=activation,
                kernel_initializer=kernel_initializer,
                flatten_output=True,
            )
            spec = image.output_spec
            parts.extend(image.layers._modules.values())  # type: ignore[arg-type]
        size = vector_size(spec, name) if has_fc else spec.numel
        fcs = fc_chain(size, fc_layer_params, activation, kernel_initializer, use_fc_bn, use_fc_ln)
        parts.extend(fcs._modules.values())  # type: ignore[arg-type]
        size = fc_layer_params[-1] if fc_layer_params else size
        if last_layer_size is not None:
            assert last_activation is not None
            init = last_kernel_initializer or kernel_initializer
            parts.append(last_fc(size, last_layer_size, last_activation, init, last_use_fc_bn, last_use_fc_ln))
            size = last_layer_size
        if output_tensor_spec is not None:
            if output_tensor_spec.numel != size:
                raise ValueError(
                    f"{name}: the last layer has {size} outputs, which do not make output_tensor_spec "
                    f"{tuple(output_tensor_spec.shape)}; set last_layer_size={output_tensor_spec.numel}"
                )
            if tuple(output_tensor_spec.shape) != (size,):
                parts.append(Reshape(output_tensor_spec.shape, input_dims=1))
        self.layers = Chain(parts)

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[Tensor, Nest]:
        """Maps a nest of [..., *shape] to [..., size]."""
        if self.preprocessing is not None:
            inputs = self.preprocessing(inputs)
        for layer in self.layers._modules.values():
            inputs = layer(inputs)  # type: ignore[misc]
        return inputs, state


@configurable
class RecurrentEncodingNetwork(Network):
    """An encoder, a stack of recurrent cells, and fully connected layers."""

    leading_dims_agnostic = True

    def __init__(
        self,
        input_tensor_spec: Nest,
        cell_ctor: CellCtor,
        output_tensor_spec: TensorSpec | None = None,
        input_preprocessors: Nest = None,
        preprocessing_combiner: Callable[[Nest], Tensor] | None = None,
        conv_layer_params: ConvLayerParams = None,
        pre_fc_layer_params: LayerSizes = None,
        hidden_size: int | Sequence[int] = (100,),
        lstm_output_layers: int | Sequence[int] = -1,
        post_fc_layer_params: LayerSizes = None,
        activation: Activation = torch.relu_,
        kernel_initializer: Initializer | None = None,
        last_layer_size: int | None = None,
        last_activation: Activation | None = None,
        last_kernel_initializer: Initializer | None = None,
        name: str = "RecurrentEncodingNetwork",
    ) -> None:
        """Builds the layers.

        Args:
            input_tensor_spec: nest of specs of the input.
            cell_ctor: called as ``cell_ctor(input_size, hidden_size)`` for each recurrent layer; see `CellCtor`.
            output_tensor_spec: the output is reshaped to it; its size must be that of the last layer.
            input_preprocessors: see `InputPreprocessing`.
            preprocessing_combiner: makes one tensor of a nested input; required for one.
            conv_layer_params: see `ImageEncodingNetwork`; for an image.
            pre_fc_layer_params: sizes of the layers before the cells.
            hidden_size: of each cell; an int is one cell.
            lstm_output_layers: the cells whose outputs, concatenated, are the output of the stack; -1 is the last.
            post_fc_layer_params: sizes of the layers after the cells.
            activation: of all layers but the last.
            kernel_initializer: fills a weight in place; None: by variance scaling.
            last_layer_size: size of an additional last layer; None: none.
            last_activation: of the last layer.
            last_kernel_initializer: of the last layer.
            name: of this network.
        """
        super().__init__(input_tensor_spec, name=name)
        input_preprocessors, preprocessing_combiner = fitting_inputs(
            input_tensor_spec, input_preprocessors, preprocessing_combiner, conv_layer_params
        )
        self.encoder = EncodingNetwork(
            input_tensor_spec,
            input_preprocessors=input_preprocessors,
            preprocessing_combiner=preprocessing_combiner,
            conv_layer_params=conv_layer_params,
            fc_layer_params=pre_fc_layer_params,
            activation=activation,
            kernel_initializer=kernel_initializer,
            name=f"{name}.encoder",
        )
        sizes = [hidden_size] if isinstance(hidden_size, int) else list(hidden_size)
        if not sizes:
            raise ValueError(f"{name}: hidden_size is empty; give at least one recurrent layer")
        size = vector_size(self.encoder.output_spec, name)
        self.cells = nn.ModuleList()
        for hidden in sizes:
            self.cells.append(cell_ctor(size, hidden))
            size = hidden
        layers = [lstm_output_layers] if isinstance(lstm_output_layers, int) else list(lstm_output_layers)
        if not layers or not all(-len(sizes) <= i < len(sizes) for i in layers):
            raise ValueError(f"{name}: lstm_output_layers {lstm_output_layers} do not name some of {len(sizes)} layers")
        self._output_layers = [i % len(sizes) for i in layers]
        self.decoder = EncodingNetwork(
            TensorSpec((sum(sizes[i] for i in self._output_layers),)),
            output_tensor_spec=output_tensor_spec,
            fc_layer_params=post_fc_layer_params,
            activation=activation,
            kernel_initializer=kernel_initializer,
            last_layer_size=last_layer_size,
            last_activation=last_activation,
            last_kernel_initializer=last_kernel_initializer,
            name=f"{name}.decoder",
        )

    def _select(self, outputs: list[Tensor]) -> Tensor:
        chosen = [outputs[i] for i in self._output_layers]
        return chosen[0] if len(chosen) == 1 else torch.cat(chosen, -1)

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[Tensor, Nest]:
        """One step, a nest of [..., *shape] to [..., size]; the state has a tuple for each cell."""
        x, _ = self.encoder(inputs)
        states, outputs = [], []
        for i, cell in enumerate(self.cells):
            if isinstance(cell, RecurrentCell):
                after = cell(x, state[i] if state else cell.initial_state(x))
                x = after[0]
            else:
                x, after = cell(x, state[i] if state else ())
            states.append(after)
            outputs.append(x)
        return self.decoder(self._select(outputs))[0], tuple(states)

    def unroll(self, inputs: Nest, state: Nest = (), is_first: Tensor | None = None) -> tuple[Nest, Nest]:
        """All steps of [..., B, T, *shape], each layer in one call; see `Network.unroll`."""
        x, _ = self.encoder.unroll(inputs)
        states, outputs = [], []
        for i, cell in enumerate(self.cells):
            if isinstance(cell, RecurrentCell):
                x, after = cell.unroll(x, state[i] if state else cell.initial_state(x.select(-2, 0)), is_first)
            else:
                x, after = cell.unroll(x, state[i] if state else (), is_first)  # type: ignore[operator]
            states.append(after)
            outputs.append(x)
        return self.decoder.unroll(self._select(outputs))[0], tuple(states)


@configurable
class LSTMEncodingNetwork(RecurrentEncodingNetwork):
    """An encoder, a stack of LSTM cells, and fully connected layers."""

    def __init__(
        self,
        input_tensor_spec: Nest,
        output_tensor_spec: TensorSpec | None = None,
        input_preprocessors: Nest = None,
        preprocessing_combiner: Callable[[Nest], Tensor] | None = None,
        conv_layer_params: ConvLayerParams = None,
        pre_fc_layer_params: LayerSizes = None,
        hidden_size: int | Sequence[int] = (100,),
        lstm_output_layers: int | Sequence[int] = -1,
        post_fc_layer_params: LayerSizes = None,
        activation: Activation = torch.relu_,
        kernel_initializer: Initializer | None = None,
        last_layer_size: int | None = None,
        last_activation: Activation | None = None,
        last_kernel_initializer: Initializer | None = None,
        name: str = "LSTMEncodingNetwork",
    ) -> None:
        """Builds the layers; the parameters are those of `RecurrentEncodingNetwork`."""
        super().__init__(
            input_tensor_spec,
            LSTMLayer,
            output_tensor_spec,
            input_preprocessors,
            preprocessing_combiner,
            conv_layer_params,
            pre_fc_layer_params,
            hidden_size,
            lstm_output_layers,
            post_fc_layer_params,
            activation,
            kernel_initializer,
            last_layer_size,
            last_activation,
            last_kernel_initializer,
            name,
        )


@configurable
class GRUEncodingNetwork(RecurrentEncodingNetwork):
    """An encoder, a stack of GRU cells, and fully connected layers."""

    def __init__(
        self,
        input_tensor_spec: Nest,
        output_tensor_spec: TensorSpec | None = None,
        input_preprocessors: Nest = None,
        preprocessing_combiner: Callable[[Nest], Tensor] | None = None,
        conv_layer_params: ConvLayerParams = None,
        pre_fc_layer_params: LayerSizes = None,
        hidden_size: int | Sequence[int] = (100,),
        gru_output_layers: int | Sequence[int] = -1,
        post_fc_layer_params: LayerSizes = None,
        activation: Activation = torch.relu_,
        kernel_initializer: Initializer | None = None,
        last_layer_size: int | None = None,
        last_activation: Activation | None = None,
        last_kernel_initializer: Initializer | None = None,
        name: str = "GRUEncodingNetwork",
    ) -> None:
        """Builds the layers; the parameters are those of `RecurrentEncodingNetwork`."""
        super().__init__(
            input_tensor_spec,
            GRULayer,
            output_tensor_spec,
            input_preprocessors,
            preprocessing_combiner,
            conv_layer_params,
            pre_fc_layer_params,
            hidden_size,
            gru_output_layers,
            post_fc_layer_params,
            activation,
            kernel_initializer,
            last_layer_size,
            last_activation,
            last_kernel_initializer,
            name,
        )
