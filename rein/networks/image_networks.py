"""Convolutional encoders and decoders of images."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rein.config import configurable
from rein.nest import Nest
from rein.networks.chains import Chain, LayerSizes, fc_chain, vector_size
from rein.networks.layers import (
    FC,
    BottleneckBlock,
    Conv2D,
    ConvTranspose2D,
    Flatten,
    Layer,
    Reshape,
    identity,
)
from rein.networks.layers.conv import pair
from rein.networks.layers.initializers import Activation, Initializer
from rein.networks.network import Network
from rein.specs import TensorSpec


def image_shape(spec: Any, owner: str) -> tuple[int, int, int]:
    """Channels, height and width of the image that `spec` describes; anything else is refused."""
    if not isinstance(spec, TensorSpec) or spec.ndim != 3:
        raise ValueError(f"{owner}: the input must be one image of shape (channels, height, width), got {spec}")
    if not spec.is_continuous:
        raise ValueError(
            f"{owner}: the image is {spec.dtype}; scale it to floats first, for example with "
            "ImageScaleTransformer, or give a Cast preprocessor"
        )
    channels, height, width = spec.shape
    return channels, height, width


def conv_params(params: Sequence[Any], owner: str) -> tuple[int, Any, Any, Any, Any]:
    """Filters, kernel size, strides, padding and pooling kernel (or None) of one layer."""
    if not 3 <= len(params) <= 5:
        raise ValueError(
            f"{owner}: a layer is (filters, kernel_size, strides[, padding[, pooling_kernel]]), got {params!r}"
        )
    filters, kernel, strides, *rest = params
    return filters, kernel, strides, rest[0] if rest else 0, rest[1] if len(rest) > 1 else None


class MaxPool2D(Layer):
    """Maximum over windows that do not overlap, [..., C, H, W] to [..., C, H', W']."""

    def __init__(self, kernel_size: int | tuple[int, int]) -> None:
        super().__init__()
        self.kernel_size = pair(kernel_size)

    def forward(self, x: Tensor) -> Tensor:
        """Maps [..., C, H, W] to [..., C, H', W']."""
        lead = x.shape[:-3]
        y = F.max_pool2d(x.reshape(-1, *x.shape[-3:]), self.kernel_size)
        return y.reshape(*lead, *y.shape[1:])


@configurable
class ImageEncodingNetwork(Network):
    """Convolutional layers, [B, C, H, W] to [B, C', H', W'] or flattened."""

    leading_dims_agnostic = True

    def __init__(
        self,
        input_tensor_spec: TensorSpec,
        conv_layer_params: Sequence[tuple[Any, ...]],
        same_padding: bool = False,
        activation: Activation = torch.relu_,
        kernel_initializer: Initializer | None = None,
        use_bias: bool | None = None,
        use_bn: bool = False,
        use_ln: bool = False,
        flatten_output: bool = False,
        name: str = "ImageEncodingNetwork",
    ) -> None:
        """Builds the layers, and refuses sizes that the image is too small for.

        Args:
            input_tensor_spec: one image (C, H, W) of floats.
            conv_layer_params: for each layer (filters, kernel_size, strides, padding, pooling_kernel), the last two
                optional.
            same_padding: pad each layer by half its kernel, whatever `padding` says.
            activation: of each layer.
            kernel_initializer: fills a weight in place; None: by variance scaling.
            use_bias: whether layers have a bias; None: if there is no normalization.
            use_bn: batch normalization in each layer.
            use_ln: normalization of each image in each layer.
            flatten_output: whether the output is a vector.
            name: of this network.
        """
        super().__init__(input_tensor_spec, name=name)
        channels, height, width = image_shape(input_tensor_spec, name)
        if not conv_layer_params:
            raise ValueError(f"{name}: conv_layer_params is empty")
        layers: list[nn.Module] = []
        for params in conv_layer_params:
            filters, kernel, strides, padding, pool = conv_params(params, name)
            if same_padding:
                padding = tuple((k - 1) // 2 for k in pair(kernel))
            conv = Conv2D(
                channels,
                filters,
                kernel,
                activation,
                strides,
                padding,
                use_bias=use_bias,
                use_bn=use_bn,
                use_ln=use_ln,
                kernel_initializer=kernel_initializer,
                channels_last=not layers,
            )
            height, width = conv.output_size(height, width)
            layers.append(conv)
            if pool is not None:
                layers.append(MaxPool2D(pool))
                height, width = height // pair(pool)[0], width // pair(pool)[1]
                if min(height, width) < 1:
                    raise ValueError(f"{name}: pooling by {pool} leaves nothing of the image")
            channels = filters
        if flatten_output:
            layers.append(Flatten(3))
        self.layers = Chain(layers)

    def forward(self, inputs: Tensor, state: Nest = ()) -> tuple[Tensor, Nest]:
        """Maps [..., C, H, W] to [..., C', H', W'] or [..., C' * H' * W']."""
        return self.layers(inputs), state


@configurable
class ImageDecodingNetwork(Network):
    """Fully connected, then transposed convolutional layers, [B, size] to [B, C, H, W]."""

    leading_dims_agnostic = True

    def __init__(
        self,
        input_tensor_spec: TensorSpec,
        transconv_layer_params: Sequence[tuple[Any, ...]],
        start_decoding_size: int | tuple[int, int],
        start_decoding_channels: int,
        same_padding: bool = False,
        preprocess_fc_layer_params: LayerSizes = None,
        activation: Activation = torch.relu_,
        kernel_initializer: Initializer | None = None,
        output_activation: Activation = torch.tanh,
        name: str = "ImageDecodingNetwork",
    ) -> None:
        """Builds the layers.

        Args:
            input_tensor_spec: a vector of floats.
            transconv_layer_params: for each layer (filters, kernel_size, strides, padding), the last optional; the
                filters of the last layer are the channels of the image.
            start_decoding_size: height and width of the first image.
            start_decoding_channels: channels of the first image.
            same_padding: pad each layer by half its kernel, whatever `padding` says.
            preprocess_fc_layer_params: sizes of layers before the one that makes the first image.
            activation: of all layers but the last.
            kernel_initializer: fills a weight in place; None: by variance scaling.
            output_activation: of the last layer.
            name: of this network.
        """
        super().__init__(input_tensor_spec, name=name)
        size = vector_size(input_tensor_spec, name)
        if not transconv_layer_params:
            raise ValueError(f"{name}: transconv_layer_params is empty")
        height, width = pair(start_decoding_size)
        start = (start_decoding_channels, height, width)
        sizes = [*(preprocess_fc_layer_params or ()), start_decoding_channels * height * width]
        fcs = fc_chain(size, sizes, activation, kernel_initializer)
        layers: list[nn.Module] = [fcs, Reshape(start, input_dims=1)]
        channels = start_decoding_channels
        for i, params in enumerate(transconv_layer_params):
            filters, kernel, strides, padding, _ = conv_params(params, name)
            if same_padding:
                padding = tuple((k - 1) // 2 for k in pair(kernel))
            conv = ConvTranspose2D(
                channels,
                filters,
                kernel,
                output_activation if i == len(transconv_layer_params) - 1 else activation,
                strides,
                padding,
                kernel_initializer=kernel_initializer,
            )
            height, width = conv.output_size(height, width)
            layers.append(conv)
            channels = filters
        self.layers = Chain(layers)

    def forward(self, inputs: Tensor, state: Nest = ()) -> tuple[Tensor, Nest]:
        """Maps [..., size] to [..., C, H, W]."""
        return self.layers(inputs), state


class _SpatialBroadcast(Layer):
    """Repeats a vector at each pixel and adds two channels with the pixel's place in [-1, 1]."""

    def __init__(self, height: int, width: int) -> None:
        super().__init__()
        self.height = height
        self.width = width

    def forward(self, x: Tensor) -> Tensor:
        """Maps [..., size] to [..., size + 2, H, W]."""
        size = (*x.shape[:-1], 1, self.height, self.width)
        rows = torch.linspace(-1, 1, self.height, device=x.device, dtype=x.dtype)
        columns = torch.linspace(-1, 1, self.width, device=x.device, dtype=x.dtype)
        tiled = x[..., None, None].expand(*x.shape, self.height, self.width)
        return torch.cat([tiled, rows[:, None].expand(size), columns.expand(size)], -3)


@configurable
class SpatialBroadcastDecodingNetwork(Network):
    """Decodes a vector by convolutions over its copies at each pixel, [B, size] to [B, C, H, W].

    Watters et al. (2019), "Spatial Broadcast Decoder": the place of a pixel is given, not learnt, which helps a
    latent to factor into what and where.
    """

    leading_dims_agnostic = True

    def __init__(
        self,
        input_tensor_spec: TensorSpec,
        output_height: int,
        output_width: int,
        conv_layer_params: Sequence[tuple[Any, ...]],
        fc_layer_params: LayerSizes = None,
        activation: Activation = torch.relu_,
        kernel_initializer: Initializer | None = None,
        output_activation: Activation = identity,
        name: str = "SpatialBroadcastDecodingNetwork",
    ) -> None:
        """Builds the layers.

        Args:
            input_tensor_spec: a vector of floats.
            output_height: of the image in pixels; strides are 1 and padding keeps the size.
            output_width: of the image in pixels.
            conv_layer_params: for each layer (filters, kernel_size[, strides, ...]); the filters of the last layer are
                the channels of the image; kernels are odd and strides 1.
            fc_layer_params: sizes of layers before the broadcast.
            activation: of all layers but the last.
            kernel_initializer: fills a weight in place; None: by variance scaling.
            output_activation: of the last layer.
            name: of this network.
        """
        super().__init__(input_tensor_spec, name=name)
        size = vector_size(input_tensor_spec, name)
        fcs = fc_chain(size, fc_layer_params, activation, kernel_initializer)
        channels = (fc_layer_params[-1] if fc_layer_params else size) + 2
        layers: list[nn.Module] = [fcs, _SpatialBroadcast(output_height, output_width)]
        if not conv_layer_params:
            raise ValueError(f"{name}: conv_layer_params is empty")
        for i, (filters, kernel, *strides) in enumerate(conv_layer_params):
            sides = pair(kernel)
            if sides[0] % 2 == 0 or sides[1] % 2 == 0 or (strides and pair(strides[0]) != (1, 1)):
                raise ValueError(
                    f"{name}: layer {i} has kernel {kernel} and strides {strides or 1}; the image keeps its size "
                    "only with odd kernels and strides of 1"
                )
            layers.append(
                Conv2D(
                    channels,
                    filters,
                    kernel,
                    output_activation if i == len(conv_layer_params) - 1 else activation,
                    padding=(sides[0] // 2, sides[1] // 2),
                    kernel_initializer=kernel_initializer,
                )
            )
            channels = filters
        self.layers = Chain(layers)

    def forward(self, inputs: Tensor, state: Nest = ()) -> tuple[Tensor, Nest]:
        """Maps [..., size] to [..., C, H, W]."""
        return self.layers(inputs), state


@configurable
class ResnetEncodingNetwork(Network):
    """Encodes an image by bottleneck blocks, [B, C, H, W] to [B, output_size].

    The encoder of Wayne et al. (2018), "Unsupervised Predictive Memory in a Goal-Directed Agent", appendix: six
    blocks, of which every second halves the image.
    """

    leading_dims_agnostic = True

    def __init__(
        self,
        input_tensor_spec: TensorSpec,
        output_size: int = 500,
        output_activation: Activation = torch.tanh,
        use_fc_bn: bool = False,
        norm_layer: nn.Module | None = None,
        name: str = "ResnetEncodingNetwork",
    ) -> None:
        """Builds the layers.

        Args:
            input_tensor_spec: one image (C, H, W) of floats.
            output_size: length of the output.
            output_activation: of the output.
            use_fc_bn: whether the last layer is batch-normalized.
            norm_layer: applied to the output before its activation; excludes `use_fc_bn`.
            name: of this network.
        """
        super().__init__(input_tensor_spec, name=name)
        channels, height, width = image_shape(input_tensor_spec, name)
        if norm_layer is not None and use_fc_bn:
            raise ValueError(f"{name}: norm_layer and use_fc_bn exclude each other")
        layers: list[nn.Module] = []
        for stride in (2, 1, 2, 1, 2, 1):
            layers.append(BottleneckBlock(channels, 3, (64, 32, 64), stride))
            channels = 64
            height, width = -(-height // stride), -(-width // stride)
        layers.append(Flatten(3))
        last_activation = output_activation if norm_layer is None else identity
        layers.append(FC(channels * height * width, output_size, last_activation, use_bn=use_fc_bn))
        if norm_layer is not None:
            layers += [norm_layer, _Activate(output_activation)]
        self.layers = Chain(layers)

    def forward(self, inputs: Tensor, state: Nest = ()) -> tuple[Tensor, Nest]:
        """Maps [..., C, H, W] to [..., output_size]."""
        return self.layers(inputs), state


@configurable
class ResnetDecodingNetwork(Network):
    """Decodes an image by transposed bottleneck blocks, [B, size] to [B, C, H, W]; see `ResnetEncodingNetwork`."""

    leading_dims_agnostic = True

    def __init__(
        self,
        input_tensor_spec: TensorSpec,
        output_tensor_spec: TensorSpec = TensorSpec((3, 64, 64)),
        name: str = "ResnetDecodingNetwork",
    ) -> None:
        """Builds the layers.

        Args:
            input_tensor_spec: a vector of floats.
            output_tensor_spec: one image (C, H, W), height and width multiples of 8; its pixels come out of a
                sigmoid.
            name: of this network.
        """
        super().__init__(input_tensor_spec, name=name)
        channels, height, width = image_shape(output_tensor_spec, name)
        if height % 8 or width % 8:
            raise ValueError(f"{name}: height and width must be multiples of 8, got {height}x{width}")
        start = (64, height // 8, width // 8)
        size = vector_size(input_tensor_spec, name)
        layers: list[nn.Module] = [
            FC(size, 500, torch.relu_),
            FC(500, start[0] * start[1] * start[2], torch.relu_),
            Reshape(start, input_dims=1),
        ]
        layers += [BottleneckBlock(64, 3, (64, 32, 64), stride, transpose=True) for stride in (1, 2, 1, 2, 1, 2)]
        layers.append(Conv2D(64, channels, 1, torch.sigmoid))
        self.layers = Chain(layers)

    def forward(self, inputs: Tensor, state: Nest = ()) -> tuple[Tensor, Nest]:
        """Maps [..., size] to [..., C, H, W]."""
        return self.layers(inputs), state


class _Activate(Layer):
    """Applies an element-wise function."""

    def __init__(self, activation: Activation) -> None:
        super().__init__()
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(x)
