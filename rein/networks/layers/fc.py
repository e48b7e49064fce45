"""Fully connected layers, one replica or many."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rein.config import configurable
from rein.networks.layers.initializers import (
    Activation,
    Initializer,
    identity,
    variance_scaling_init,
)
from rein.networks.layers.layer import Layer, ParallelLayer, check_sizes
from rein.networks.layers.normalization import BatchNorm, LayerNorm

_FEW_COLUMNS = 8


@configurable
class FC(Layer):
    """A fully connected layer, [..., input_size] to [..., output_size]."""

    def __init__(
        self,
        input_size: int,
        output_size: int,
        activation: Activation = identity,
        use_bias: bool = True,
        use_bn: bool = False,
        use_ln: bool = False,
        kernel_initializer: Initializer | None = None,
        kernel_init_gain: float = 1.0,
        bias_init_value: float = 0.0,
        initializer: Callable[["FC"], Any] | None = None,
    ) -> None:
        """Draws the weights.

        Args:
            input_size: length of the input vector.
            output_size: length of the output vector.
            activation: applied last.
            use_bias: whether a bias is added.
            use_bn: whether batch normalization comes before the activation.
            use_ln: whether layer normalization comes before the activation.
            kernel_initializer: fills the [output_size, input_size] weight in place; by default
                `variance_scaling_init` for `activation`.
            kernel_init_gain: scales the default initial weights.
            bias_init_value: initial value of each bias.
            initializer: fills weight and bias of this layer in place, instead of the three before; for all networks at
                once: ``config("FC", initializer=torch_linear_init)``.
        """
        check_sizes(type(self).__name__, input_size=input_size, output_size=output_size)
        if use_bn and use_ln:
            raise ValueError("use_bn and use_ln exclude each other: choose one normalization")
        super().__init__()
        self.input_size = input_size
        self.output_size = output_size
        self.activation = activation
        self.kernel_initializer = kernel_initializer
        self.kernel_init_gain = kernel_init_gain
        self.bias_init_value = bias_init_value
        self.initializer = initializer
        self.weight = nn.Parameter(torch.empty(output_size, input_size))
        self.bias = nn.Parameter(torch.empty(output_size)) if use_bias else None
        self.norm: nn.Module | None = None
        if use_bn:
            self.norm = BatchNorm(output_size)
        elif use_ln:
            self.norm = LayerNorm((output_size,))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new initial weights."""
        if self.initializer is not None:
            with torch.no_grad():
                self.initializer(self)
            return
        if self.kernel_initializer is None:
            variance_scaling_init(self.weight, gain=self.kernel_init_gain, activation=self.activation)
        else:
            with torch.no_grad():
                self.kernel_initializer(self.weight)
        if self.bias is not None:
            nn.init.constant_(self.bias, self.bias_init_value)

    def forward(self, x: Tensor) -> Tensor:
        """Maps [..., input_size] to [..., output_size]."""
        parameters = self._parameters
        y = F.linear(x, parameters["weight"], parameters.get("bias"))  # type: ignore[arg-type]
        norm = self.norm
        if norm is not None:
            y = norm(y)
        return self.activation(y)

    def new_parallel(self, n: int) -> "ParallelFC":
        """A `ParallelFC` of this layer's sizes."""
        return ParallelFC(self, n)

    def extra_repr(self) -> str:
        """Sizes and activation, for `print`."""
        return f"{self.input_size}, {self.output_size}, activation={_name(self.activation)}"


class ParallelFC(ParallelLayer):
    """`n` fully connected layers in one batched product, [n, ..., input_size] to [n, ..., output_size]."""

    def __init__(self, layer: FC, n: int) -> None:
        """Takes the sizes and settings of `layer`; the parameters are to be loaded.

        Args:
            layer: one of the layers that the result stands for.
            n: number of replicas.
        """
        super().__init__(n)
        self.input_size = layer.input_size
        self.output_size = layer.output_size
        self.activation = layer.activation
        like = layer.weight
        self.weight = nn.Parameter(like.new_empty(n, layer.input_size, layer.output_size))
        self.bias = nn.Parameter(like.new_empty(n, 1, layer.output_size)) if layer.bias is not None else None
        self.norm: nn.Module | None = None
        if layer.norm is not None:
            self.norm = layer.norm.new_parallel(n)  # type: ignore[operator]

    def forward(self, x: Tensor) -> Tensor:
        """Maps [n, ..., input_size] to [n, ..., output_size]."""
        parameters = self._parameters
        weight, bias = parameters["weight"], parameters.get("bias")
        assert weight is not None
        lead = x.shape[1:-1]
        if len(lead) != 1:
            x = x.reshape(self.n, -1, self.input_size)
        if self.output_size == 1:
            # A batched product with few columns runs at a fraction of the speed of dot products, or of columns that are
            # contiguous.
            y = (x * weight.transpose(1, 2)).sum(-1, keepdim=True)
            y = y if bias is None else y + bias
        elif self.output_size <= _FEW_COLUMNS and not torch.is_grad_enabled():
            y = torch.bmm(x, weight.transpose(1, 2).contiguous().transpose(1, 2))
            y = y if bias is None else y.add_(bias)
        else:
            y = torch.bmm(x, weight) if bias is None else torch.baddbmm(bias, x, weight)
        if len(lead) != 1:
            y = y.reshape(self.n, *lead, self.output_size)
        norm = self.norm
        if norm is not None:
            y = norm(y)
        return self.activation(y)

    def replica_tensors(self, i: int, layer: nn.Module) -> list[tuple[Tensor, Tensor]]:
        """Pairs of this layer's views and the tensors of `layer`, see `ParallelLayer`."""
        assert isinstance(layer, FC)
        pairs: list[tuple[Tensor, Tensor]] = [(self.weight[i].t(), layer.weight)]
        if self.bias is not None and layer.bias is not None:
            pairs.append((self.bias[i, 0], layer.bias))
        if isinstance(self.norm, ParallelLayer) and layer.norm is not None:
            pairs += self.norm.replica_tensors(i, layer.norm)
        return pairs

    def extra_repr(self) -> str:
        """Sizes and activation, for `print`."""
        return f"n={self.n}, {self.input_size}, {self.output_size}, activation={_name(self.activation)}"


def _name(activation: Activation) -> str:
    return getattr(activation, "__name__", repr(activation))
