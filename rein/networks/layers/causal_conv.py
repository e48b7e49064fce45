"""Convolutions over time that see the past only."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rein.config import configurable
from rein.networks.layers.initializers import Activation, Initializer, variance_scaling_init
from rein.networks.layers.layer import Layer, check_sizes


@configurable
class CausalConv1D(Layer):
    """[..., in_channels, T] to [..., out_channels, T]: what comes out at t depends on what went in until t."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        activation: Activation = torch.relu_,
        dilation: int = 1,
        hide_current: bool = False,
        use_bias: bool = True,
        kernel_initializer: Initializer | None = None,
        kernel_init_gain: float = 1.0,
        bias_init_value: float = 0.0,
    ) -> None:
        """Draws the weights.

        Args:
            in_channels: of the input.
            out_channels: of the output.
            kernel_size: steps that each output sees.
            activation: applied last.
            dilation: steps between those.
            hide_current: whether the output at t sees the input until t - 1 only.
            use_bias: whether a bias is added.
            kernel_initializer: fills the weight in place; None: by variance scaling.
            kernel_init_gain: scales the default initial weights.
            bias_init_value: initial value of each bias.
        """
        check_sizes("CausalConv1D", in_channels=in_channels, out_channels=out_channels)
        check_sizes("CausalConv1D", kernel_size=kernel_size, dilation=dilation)
        super().__init__()
        self.activation = activation
        self.dilation = dilation
        self.hide_current = hide_current
        self.kernel_initializer = kernel_initializer
        self.kernel_init_gain = kernel_init_gain
        self.bias_init_value = bias_init_value
        self.weight = nn.Parameter(torch.empty(out_channels, in_channels, kernel_size))
        self.bias = nn.Parameter(torch.empty(out_channels)) if use_bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new initial weights."""
        if self.kernel_initializer is None:
            variance_scaling_init(self.weight, gain=self.kernel_init_gain, activation=self.activation)
        else:
            with torch.no_grad():
                self.kernel_initializer(self.weight)
        if self.bias is not None:
            nn.init.constant_(self.bias, self.bias_init_value)

    def forward(self, x: Tensor) -> Tensor:
        """The convolution of [..., in_channels, T]."""
        steps = (self.weight.shape[-1] - 1) * self.dilation + self.hide_current
        flat = F.pad(x.reshape(-1, *x.shape[-2:]), (steps, 0))
        if self.hide_current:
            flat = flat[..., :-1]
        y = F.conv1d(flat, self.weight, self.bias, dilation=self.dilation)
        return self.activation(y).reshape(*x.shape[:-2], *y.shape[-2:])
