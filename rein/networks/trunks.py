"""What policies and value functions are built on: an encoder of the input, with or without memory."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from rein.nest import Nest
from rein.networks.chains import ConvLayerParams, LayerSizes, small_uniform
from rein.networks.encoding_networks import EncodingNetwork, RecurrentEncodingNetwork
from rein.networks.layers import identity
from rein.networks.layers.initializers import Activation, Initializer
from rein.networks.network import Network
from rein.networks.recurrent import CellCtor
from rein.networks.spec_encoders import fitting_inputs
from rein.specs import TensorSpec


class Memory(NamedTuple):
    """The recurrent part of a trunk."""

    cell: CellCtor
    """Called as ``cell(input_size, hidden_size)``."""
    hidden_size: int | Sequence[int]
    """Of each cell; an int is one cell."""
    fc_layer_params: LayerSizes
    """Sizes of the layers after the cells."""


def make_trunk(
    input_tensor_spec: Nest,
    input_preprocessors: Nest,
    preprocessing_combiner: Callable[[Nest], Tensor] | None,
    conv_layer_params: ConvLayerParams,
    fc_layer_params: LayerSizes,
    activation: Activation,
    kernel_initializer: Initializer | None,
    name: str,
    memory: Memory | None = None,
    **more: Any,
) -> Network:
    """An encoder of the input.

    Args:
        input_tensor_spec: nest of specs of the input.
        input_preprocessors: see `InputPreprocessing`.
        preprocessing_combiner: makes one tensor of a nested input. If neither this nor the two beside it are given, the
            parts are encoded as `encoder_for` says and concatenated.
        conv_layer_params: see `ImageEncodingNetwork`; for an image.
        fc_layer_params: sizes of the hidden layers, those before the memory if there is one.
        activation: of the hidden layers.
        kernel_initializer: of the hidden layers; None: by variance scaling.
        name: of the encoder.
        memory: cells and the layers after them; None: no memory.
        **more: further arguments of the encoder, such as `value_layer` gives.
    """
    input_preprocessors, preprocessing_combiner = fitting_inputs(
        input_tensor_spec, input_preprocessors, preprocessing_combiner, conv_layer_params
    )
    shared: dict[str, Any] = {
        "input_preprocessors": input_preprocessors,
        "preprocessing_combiner": preprocessing_combiner,
        "conv_layer_params": conv_layer_params,
        "activation": activation,
        "kernel_initializer": kernel_initializer,
        "name": name,
        **more,
    }
    if memory is None:
        return EncodingNetwork(input_tensor_spec, fc_layer_params=fc_layer_params, **shared)
    return RecurrentEncodingNetwork(
        input_tensor_spec,
        memory.cell,
        pre_fc_layer_params=fc_layer_params,
        hidden_size=memory.hidden_size,
        post_fc_layer_params=memory.fc_layer_params,
        **shared,
    )


def value_layer(output_tensor_spec: TensorSpec) -> dict[str, Any]:
    """Arguments of an encoder whose last layer gives values, near zero at first: [..., *shape], or [..., 1] for scalars."""
    return {
        "output_tensor_spec": output_tensor_spec if output_tensor_spec.ndim > 1 else None,
        "last_layer_size": output_tensor_spec.numel,
        "last_activation": identity,
        "last_kernel_initializer": small_uniform,
    }
