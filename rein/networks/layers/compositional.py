"""Layers whose weights are put together for each example."""

import torch
from torch import Tensor, nn

from rein.config import configurable
from rein.networks.layers.initializers import Activation, Initializer, identity, variance_scaling_init
from rein.networks.layers.layer import Layer, check_sizes


@configurable
class CompositionalFC(Layer):
    """A fully connected layer that is a mixture of n, each example with shares of its own: `sum_i w_i (W_i x + b_i)`."""

    def __init__(
        self,
        input_size: int,
        output_size: int,
        n: int,
        activation: Activation = identity,
        output_comp_weight: bool = True,
        use_bias: bool = True,
        kernel_initializer: Initializer | None = None,
        kernel_init_gain: float = 1.0,
        bias_init_value: float = 0.0,
    ) -> None:
        """Draws the weights.

        Args:
            input_size: length of the input vector.
            output_size: length of the output vector.
            n: number of layers that are mixed.
            activation: applied last.
            output_comp_weight: whether the shares are given back beside the output, for the next such layer.
            use_bias: whether biases are added.
            kernel_initializer: fills each [output_size, input_size] weight in place; None: by variance scaling.
            kernel_init_gain: scales the default initial weights.
            bias_init_value: initial value of each bias.
        """
        check_sizes("CompositionalFC", input_size=input_size, output_size=output_size, n=n)
        super().__init__()
        self.n = n
        self.activation = activation
        self.output_comp_weight = output_comp_weight
        self.kernel_initializer = kernel_initializer
        self.kernel_init_gain = kernel_init_gain
        self.bias_init_value = bias_init_value
        self.weight = nn.Parameter(torch.empty(n, output_size, input_size))
        self.bias = nn.Parameter(torch.empty(n, output_size)) if use_bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new initial weights."""
        with torch.no_grad():
            for weight in self.weight:
                if self.kernel_initializer is None:
                    variance_scaling_init(weight, gain=self.kernel_init_gain, activation=self.activation)
                else:
                    self.kernel_initializer(weight)
        if self.bias is not None:
            nn.init.constant_(self.bias, self.bias_init_value)

    def forward(self, inputs: Tensor | tuple[Tensor, Tensor | None]) -> Tensor | tuple[Tensor, Tensor | None]:
        """The mixture.

        Args:
            inputs: (x [B, input_size], shares [B, n]), or x alone, whose shares are 1 each.

        Returns:
            [B, output_size], and the shares if `output_comp_weight`.
        """
        x, shares = inputs if isinstance(inputs, tuple) else (inputs, None)
        each = torch.einsum("bi,noi->bno", x, self.weight)
        if self.bias is not None:
            each = each + self.bias
        mixed = each.sum(1) if shares is None else torch.einsum("bn,bno->bo", shares, each)
        y = self.activation(mixed)
        return (y, shares) if self.output_comp_weight else y
