"""Blocks that add their input to what they compute: He et al. (2016), "Deep Residual Learning"."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rein.config import configurable
from rein.networks.layers.conv import Conv2D, ConvTranspose2D, pair
from rein.networks.layers.fc import FC
from rein.networks.layers.initializers import Activation, identity
from rein.networks.layers.layer import Layer, check_sizes
from rein.networks.layers.normalization import LayerNorm


@configurable
class ResidueBlock(Layer):
    """Two convolutions with a shortcut, [..., in_channels, H, W] to [..., channels, H', W']."""

    def __init__(
        self,
        in_channels: int,
        channels: int,
        kernel_size: int = 3,
        stride: int = 1,
        activation: Activation = torch.relu_,
        with_batch_normalization: bool = True,
    ) -> None:
        """Builds the block; a 1x1 convolution is the shortcut where the shape changes.

        Args:
            in_channels: channels of the input.
            channels: channels of the output.
            kernel_size: of both convolutions, odd.
            stride: of the first convolution.
            activation: after the first convolution and after the sum.
            with_batch_normalization: whether each convolution is normalized.
        """
        check_sizes("ResidueBlock", kernel_size=kernel_size)
        if kernel_size % 2 == 0:
            raise ValueError(f"ResidueBlock: kernel_size must be odd, got {kernel_size}")
        super().__init__()
        use_bn, padding = with_batch_normalization, kernel_size // 2
        self.conv1 = Conv2D(in_channels, channels, kernel_size, activation, stride, padding, use_bn=use_bn)
        self.conv2 = Conv2D(channels, channels, kernel_size, identity, 1, padding, use_bn=use_bn)
        self.shortcut: nn.Module | None = None
        if stride != 1 or in_channels != channels:
            self.shortcut = Conv2D(in_channels, channels, 1, identity, stride, use_bn=use_bn)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """Maps [..., in_channels, H, W] to [..., channels, H', W']."""
        residue = self.conv2(self.conv1(x))
        return self.activation(residue + (x if self.shortcut is None else self.shortcut(x)))


@configurable
class BottleneckBlock(Layer):
    """Convolutions 1x1, kxk, 1x1 with a shortcut, [..., C, H, W] to [..., filters[2], H', W']."""

    def __init__(
        self,
        in_channels: int,
        kernel_size: int | tuple[int, int],
        filters: Sequence[int],
        stride: int | tuple[int, int],
        transpose: bool = False,
        activation: Activation = torch.relu_,
        with_batch_normalization: bool = True,
    ) -> None:
        """Builds the block; the shortcut is a 1x1 convolution.

        Args:
            in_channels: channels of the input.
            kernel_size: of the middle convolution, odd.
            filters: output channels of the three convolutions.
            stride: of the first convolution.
            transpose: use transposed convolutions, so that `stride` enlarges the image.
            activation: after each convolution but the last, and after the sum.
            with_batch_normalization: whether each convolution is normalized.
        """
        if len(filters) != 3:
            raise ValueError(f"BottleneckBlock: filters must be three numbers, got {filters!r}")
        kernel, strides = pair(kernel_size), pair(stride)
        if kernel[0] % 2 == 0 or kernel[1] % 2 == 0:
            raise ValueError(f"BottleneckBlock: kernel_size must be odd, got {kernel_size}")
        super().__init__()
        conv: Any = ConvTranspose2D if transpose else Conv2D
        # A transposed 1x1 convolution of stride s makes s*H - s + 1 rows: pad to s*H.
        grow = {"output_padding": (strides[0] - 1, strides[1] - 1)} if transpose else {}
        use_bn = with_batch_normalization
        first, middle, last = filters
        padding = (kernel[0] // 2, kernel[1] // 2)
        self.conv1 = conv(in_channels, first, 1, activation=activation, strides=strides, use_bn=use_bn, **grow)
        self.conv2 = conv(first, middle, kernel, activation=activation, padding=padding, use_bn=use_bn)
        self.conv3 = conv(middle, last, 1, activation=identity, use_bn=use_bn)
        self.shortcut: nn.Module | None = None
        if strides != (1, 1) or in_channels != last:
            self.shortcut = conv(in_channels, last, 1, activation=identity, strides=strides, use_bn=use_bn, **grow)
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        """Maps [..., in_channels, H, W] to [..., filters[2], H', W']."""
        residue = self.conv3(self.conv2(self.conv1(x)))
        return self.activation(residue + (x if self.shortcut is None else self.shortcut(x)))


@configurable
class ResidualFC(Layer):
    """Pre-normalized fully connected block, ``x + W2 act(W1 norm(x))``, [..., size] to [..., size]."""

    def __init__(
        self,
        size: int,
        hidden_size: int | None = None,
        activation: Activation = torch.relu_,
        use_ln: bool = True,
    ) -> None:
        """Builds the block; its last layer starts small, so that the block starts near the identity.

        Args:
            size: of input and output.
            hidden_size: width of the hidden layer; None: four times `size`.
            activation: of the hidden layer.
            use_ln: whether the input of the first layer is normalized.
        """
        super().__init__()
        hidden = 4 * size if hidden_size is None else hidden_size
        self.norm: nn.Module | None = LayerNorm((size,)) if use_ln else None
        self.fc1 = FC(size, hidden, activation)
        self.fc2 = FC(hidden, size, kernel_init_gain=0.1)

    def forward(self, x: Tensor) -> Tensor:
        """Maps [..., size] to [..., size]."""
        return x + self.fc2(self.fc1(x if self.norm is None else self.norm(x)))
