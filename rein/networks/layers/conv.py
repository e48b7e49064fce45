"""Convolutions and transposed convolutions on images, one replica or many."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rein.config import configurable
from rein.networks.layers.initializers import (
    Activation,
    Initializer,
    variance_scaling_init,
)
from rein.networks.layers.layer import Layer, ParallelLayer, check_sizes
from rein.networks.layers.normalization import BatchNorm, ChannelNorm

Pair = tuple[int, int]


def pair(value: int | tuple[int, int] | list[int]) -> Pair:
    """`value` for height and width: an int stands for both."""
    if isinstance(value, int):
        return value, value
    height, width = value
    return height, width


class _ConvBase(Layer):
    """Settings, parameters and initialisation that both directions share."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Pair,
        activation: Activation,
        strides: int | Pair,
        padding: int | Pair,
        output_padding: int | Pair,
        use_bias: bool | None,
        use_bn: bool,
        use_ln: bool,
        kernel_initializer: Initializer | None,
        kernel_init_gain: float,
        bias_init_value: float,
        transposed: bool,
    ) -> None:
        owner = type(self).__name__
        self_kernel, self_strides, self_padding = pair(kernel_size), pair(strides), pair(padding)
        check_sizes(owner, in_channels=in_channels, out_channels=out_channels)
        check_sizes(owner, kernel_height=self_kernel[0], kernel_width=self_kernel[1])
        check_sizes(owner, stride_height=self_strides[0], stride_width=self_strides[1])
        if min(self_padding) < 0:
            raise ValueError(f"{owner}: padding must not be negative, got {padding!r}")
        if use_bn and use_ln:
            raise ValueError("use_bn and use_ln exclude each other: choose one normalization")
        super().__init__()
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = self_kernel
        self.strides = self_strides
        self.padding = self_padding
        self.output_padding = pair(output_padding)
        self.activation = activation
        self.kernel_initializer = kernel_initializer
        self.kernel_init_gain = kernel_init_gain
        self.bias_init_value = bias_init_value
        self.transposed = transposed
        channels = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        self.weight = nn.Parameter(torch.empty(*channels, *self_kernel))
        has_bias = not (use_bn or use_ln) if use_bias is None else use_bias
        self.bias = nn.Parameter(torch.empty(out_channels)) if has_bias else None
        self.norm: nn.Module | None = None
        if use_bn:
            self.norm = BatchNorm(out_channels, position_dims=2)
        elif use_ln:
            self.norm = ChannelNorm(out_channels)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new initial weights."""
        if self.kernel_initializer is None:
            weight = self.weight.transpose(0, 1) if self.transposed else self.weight
            # A transposed convolution with stride s spreads each output over 1/s^2 of the kernel.
            spread = (self.strides[0] * self.strides[1]) ** 0.5 if self.transposed else 1.0
            variance_scaling_init(weight, gain=self.kernel_init_gain * spread, activation=self.activation)
        else:
            with torch.no_grad():
                self.kernel_initializer(self.weight)
        if self.bias is not None:
            nn.init.constant_(self.bias, self.bias_init_value)

    def output_size(self, height: int, width: int) -> Pair:
        """Height and width of the output for an image of `height` and `width`."""
        raise NotImplementedError

    def extra_repr(self) -> str:
        """Sizes, for `print`."""
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, "
            f"strides={self.strides}, padding={self.padding}"
        )


@configurable
class Conv2D(_ConvBase):
    """A convolution of images, [..., in_channels, H, W] to [..., out_channels, H', W']."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Pair,
        activation: Activation = torch.relu_,
        strides: int | Pair = 1,
        padding: int | Pair = 0,
        use_bias: bool | None = None,
        use_bn: bool = False,
        use_ln: bool = False,
        kernel_initializer: Initializer | None = None,
        kernel_init_gain: float = 1.0,
        bias_init_value: float = 0.0,
        channels_last: bool = False,
    ) -> None:
        """Draws the weights.

        Args:
            in_channels: channels of the input.
            out_channels: channels of the output.
            kernel_size: height and width of the kernel in pixels.
            activation: applied last.
            strides: pixels between neighbouring outputs.
            padding: zero pixels added at each border.
            use_bias: whether a bias is added; None: if there is no normalization.
            use_bn: whether batch normalization comes before the activation.
            use_ln: whether each image is normalized over channels and positions before the activation.
            kernel_initializer: fills the [out, in, h, w] weight in place; by default `variance_scaling_init`.
            kernel_init_gain: scales the default initial weights.
            bias_init_value: initial value of each bias.
            channels_last: lay out the input with the channels last when gradients are computed, which the layers
                after this one inherit; about 1.4 times as fast for stacks of layers on a CPU.
        """
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            activation,
            strides,
            padding,
            0,
            use_bias,
            use_bn,
            use_ln,
            kernel_initializer,
            kernel_init_gain,
            bias_init_value,
            transposed=False,
        )
        self.channels_last = channels_last

    def output_size(self, height: int, width: int) -> Pair:
        """Height and width of the output for an image of `height` and `width`; refuses too small ones."""
        sizes = [
            (size + 2 * p - k) // s + 1 if size + 2 * p >= k else 0
            for size, k, s, p in zip((height, width), self.kernel_size, self.strides, self.padding, strict=True)
        ]
        if min(sizes) < 1:
            raise ValueError(
                f"Conv2D: an image of {height}x{width} with padding {self.padding} is smaller than the "
                f"kernel {self.kernel_size}: use a smaller kernel or fewer strided layers"
            )
        return sizes[0], sizes[1]

    def forward(self, x: Tensor) -> Tensor:
        """Maps [..., in_channels, H, W] to [..., out_channels, H', W']."""
        lead = x.shape[:-3]
        if len(lead) != 1:
            x = x.reshape(-1, *x.shape[-3:])
        if self.channels_last and torch.is_grad_enabled():
            x = x.contiguous(memory_format=torch.channels_last)
        y = F.conv2d(x, self.weight, self.bias, self.strides, self.padding)
        if self.norm is not None:
            y = self.norm(y)
        y = self.activation(y)
        return y if len(lead) == 1 else y.reshape(*lead, *y.shape[1:])

    def new_parallel(self, n: int) -> "ParallelConv2D":
        """A `ParallelConv2D` of this layer's sizes."""
        return ParallelConv2D(self, n)


@configurable
class ConvTranspose2D(_ConvBase):
    """A transposed convolution, [..., in_channels, H, W] to [..., out_channels, H', W']."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Pair,
        activation: Activation = torch.relu_,
        strides: int | Pair = 1,
        padding: int | Pair = 0,
        output_padding: int | Pair = 0,
        use_bias: bool | None = None,
        use_bn: bool = False,
        use_ln: bool = False,
        kernel_initializer: Initializer | None = None,
        kernel_init_gain: float = 1.0,
        bias_init_value: float = 0.0,
    ) -> None:
        """Draws the weights.

        Args:
            in_channels: channels of the input.
            out_channels: channels of the output.
            kernel_size: height and width of the kernel in pixels.
            activation: applied last.
            strides: pixels between the outputs of neighbouring inputs.
            padding: pixels cut from each border of the output.
            output_padding: pixels added at the bottom and right of the output; less than `strides`.
            use_bias: whether a bias is added; None: if there is no normalization.
            use_bn: whether batch normalization comes before the activation.
            use_ln: whether each image is normalized over channels and positions before the activation.
            kernel_initializer: fills the [in, out, h, w] weight in place; by default `variance_scaling_init`.
            kernel_init_gain: scales the default initial weights.
            bias_init_value: initial value of each bias.
        """
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            activation,
            strides,
            padding,
            output_padding,
            use_bias,
            use_bn,
            use_ln,
            kernel_initializer,
            kernel_init_gain,
            bias_init_value,
            transposed=True,
        )
        extra = self.output_padding
        if extra[0] >= self.strides[0] or extra[1] >= self.strides[1]:
            raise ValueError(f"ConvTranspose2D: output_padding {extra} must be less than strides {self.strides}")

    def output_size(self, height: int, width: int) -> Pair:
        """Height and width of the output for an image of `height` and `width`; refuses empty outputs."""
        sizes = [
            (size - 1) * s - 2 * p + k + o
            for size, k, s, p, o in zip(
                (height, width),
                self.kernel_size,
                self.strides,
                self.padding,
                self.output_padding,
                strict=True,
            )
        ]
        if min(sizes) < 1:
            raise ValueError(
                f"ConvTranspose2D: padding {self.padding} cuts everything from an image of "
                f"{height}x{width}: use less padding"
            )
        return sizes[0], sizes[1]

    def forward(self, x: Tensor) -> Tensor:
        """Maps [..., in_channels, H, W] to [..., out_channels, H', W']."""
        lead = x.shape[:-3]
        if len(lead) != 1:
            x = x.reshape(-1, *x.shape[-3:])
        y = F.conv_transpose2d(x, self.weight, self.bias, self.strides, self.padding, self.output_padding)
        if self.norm is not None:
            y = self.norm(y)
        y = self.activation(y)
        return y if len(lead) == 1 else y.reshape(*lead, *y.shape[1:])

    def new_parallel(self, n: int) -> "ParallelConvTranspose2D":
        """A `ParallelConvTranspose2D` of this layer's sizes."""
        return ParallelConvTranspose2D(self, n)


class _ParallelConvBase(ParallelLayer):
    """`n` convolutions as one grouped convolution, [n, ..., in, H, W] to [n, ..., out, H', W']."""

    def __init__(self, layer: _ConvBase, n: int) -> None:
        """Takes the sizes and settings of `layer`; the parameters are to be loaded."""
        super().__init__(n)
        self.in_channels = layer.in_channels
        self.out_channels = layer.out_channels
        self.strides = layer.strides
        self.padding = layer.padding
        self.output_padding = layer.output_padding
        self.activation = layer.activation
        first, *rest = layer.weight.shape
        self.weight = nn.Parameter(layer.weight.new_empty(n * first, *rest))
        self.bias = nn.Parameter(layer.weight.new_empty(n * layer.out_channels)) if layer.bias is not None else None
        self.norm: nn.Module | None = None
        if layer.norm is not None:
            self.norm = layer.norm.new_parallel(n)  # type: ignore[operator]

    def convolve(self, x: Tensor, groups: int) -> Tensor:
        """Convolves [batch, channels, H, W] with all kernels."""
        raise NotImplementedError

    def shares_input(self, x: Tensor) -> bool:
        """Whether all replicas see one image and the kernels allow an ordinary convolution of it."""
        return False

    def forward(self, x: Tensor) -> Tensor:
        """Maps [n, ..., in, H, W] to [n, ..., out, H', W'], a view with the replicas after the batch."""
        n, lead, image = self.n, x.shape[1:-3], x.shape[-3:]
        if self.shares_input(x):
            y = self.convolve(x[0].reshape(-1, *image), groups=1)
        else:
            batch_first = x.reshape(n, -1, *image).transpose(0, 1)
            y = self.convolve(batch_first.reshape(-1, n * image[0], *image[1:]), groups=n)
        y = y.reshape(y.shape[0], n, self.out_channels, *y.shape[2:]).transpose(0, 1)
        if len(lead) != 1:
            y = y.reshape(n, *lead, *y.shape[2:])
        if self.norm is not None:
            y = self.norm(y)
        return self.activation(y)

    def replica_tensors(self, i: int, layer: nn.Module) -> list[tuple[Tensor, Tensor]]:
        """Pairs of this layer's views and the tensors of `layer`, see `ParallelLayer`."""
        assert isinstance(layer, _ConvBase)
        pairs: list[tuple[Tensor, Tensor]] = [(self.weight.chunk(self.n)[i], layer.weight)]
        if self.bias is not None and layer.bias is not None:
            pairs.append((self.bias.chunk(self.n)[i], layer.bias))
        if isinstance(self.norm, ParallelLayer) and layer.norm is not None:
            pairs += self.norm.replica_tensors(i, layer.norm)
        return pairs

    def extra_repr(self) -> str:
        """Sizes, for `print`."""
        return f"n={self.n}, {self.in_channels}, {self.out_channels}, strides={self.strides}"


class ParallelConv2D(_ParallelConvBase):
    """`n` convolutions as one grouped convolution, [n, ..., in, H, W] to [n, ..., out, H', W']."""

    def __init__(self, layer: Conv2D, n: int) -> None:
        """Takes the sizes and settings of `layer`; the parameters are to be loaded."""
        super().__init__(layer, n)
        self.channels_last = layer.channels_last

    def convolve(self, x: Tensor, groups: int) -> Tensor:
        """Convolves [batch, channels, H, W] with all kernels."""
        if self.channels_last and torch.is_grad_enabled():
            x = x.contiguous(memory_format=torch.channels_last)
        return F.conv2d(x, self.weight, self.bias, self.strides, self.padding, groups=groups)

    def shares_input(self, x: Tensor) -> bool:
        """Whether all replicas see one image: then one ordinary convolution has all the channels."""
        return x.stride(0) == 0


class ParallelConvTranspose2D(_ParallelConvBase):
    """`n` transposed convolutions in one grouped call, [n, ..., in, H, W] to [n, ..., out, H', W']."""

    def convolve(self, x: Tensor, groups: int) -> Tensor:
        """Convolves [batch, channels, H, W] with all kernels."""
        return F.conv_transpose2d(
            x,
            self.weight,
            self.bias,
            self.strides,
            self.padding,
            self.output_padding,
            groups=groups,
        )
