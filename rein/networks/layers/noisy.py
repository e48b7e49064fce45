"""Linear layers whose learnt noise explores: Fortunato et al. (2018), "Noisy Networks for Exploration"."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rein.config import configurable
from rein.networks.layers.initializers import Activation, identity
from rein.networks.layers.layer import Layer, ParallelLayer, check_sizes


def _factor(noise: Tensor) -> Tensor:
    """The paper's f(x) = sgn(x) sqrt(|x|)."""
    return noise.sign() * noise.abs().sqrt()


@configurable
class NoisyFC(Layer):
    """A fully connected layer with factorised Gaussian noise on its weights (the paper's eq. 10, 11).

    In training mode every call draws new noise, one draw for the whole batch; in evaluation mode there is
    none.
    """

    def __init__(
        self,
        input_size: int,
        output_size: int,
        activation: Activation = identity,
        sigma0: float = 0.5,
    ) -> None:
        """Draws the weights uniformly from +-1/sqrt(input_size).

        Args:
            input_size: length of the input vector.
            output_size: length of the output vector.
            activation: applied last.
            sigma0: initial noise, in units of 1/sqrt(input_size).
        """
        check_sizes("NoisyFC", input_size=input_size, output_size=output_size)
        super().__init__()
        self.input_size = input_size
        self.output_size = output_size
        self.activation = activation
        self.sigma0 = sigma0
        self.weight = nn.Parameter(torch.empty(output_size, input_size))
        self.weight_sigma = nn.Parameter(torch.empty(output_size, input_size))
        self.bias = nn.Parameter(torch.empty(output_size))
        self.bias_sigma = nn.Parameter(torch.empty(output_size))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new weights and resets the noise scales."""
        bound = 1 / math.sqrt(self.input_size)
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.uniform_(self.bias, -bound, bound)
        nn.init.constant_(self.weight_sigma, self.sigma0 * bound)
        nn.init.constant_(self.bias_sigma, self.sigma0 * bound)

    def forward(self, x: Tensor) -> Tensor:
        """Maps [..., input_size] to [..., output_size]."""
        if not self.training:
            return self.activation(F.linear(x, self.weight, self.bias))
        noise = _factor(torch.randn(self.input_size + self.output_size, device=x.device))
        into, out = noise[: self.input_size], noise[self.input_size :]
        weight = torch.addcmul(self.weight, self.weight_sigma, out[:, None] * into)
        bias = torch.addcmul(self.bias, self.bias_sigma, out)
        return self.activation(F.linear(x, weight, bias))

    def new_parallel(self, n: int) -> "ParallelNoisyFC":
        """A `ParallelNoisyFC` of this layer's sizes."""
        return ParallelNoisyFC(self, n)


class ParallelNoisyFC(ParallelLayer):
    """`n` noisy layers with independent noise, [n, ..., input_size] to [n, ..., output_size]."""

    def __init__(self, layer: NoisyFC, n: int) -> None:
        """Takes the sizes of `layer`; the parameters are to be loaded."""
        super().__init__(n)
        self.input_size = layer.input_size
        self.output_size = layer.output_size
        self.activation = layer.activation
        like = layer.weight
        self.weight = nn.Parameter(like.new_empty(n, layer.input_size, layer.output_size))
        self.weight_sigma = nn.Parameter(like.new_empty(n, layer.input_size, layer.output_size))
        self.bias = nn.Parameter(like.new_empty(n, 1, layer.output_size))
        self.bias_sigma = nn.Parameter(like.new_empty(n, 1, layer.output_size))

    def forward(self, x: Tensor) -> Tensor:
        """Maps [n, ..., input_size] to [n, ..., output_size]."""
        weight: Tensor = self.weight
        bias: Tensor = self.bias
        if self.training:
            noise = _factor(torch.randn(self.n, 1, self.input_size + self.output_size, device=x.device))
            into, out = noise[..., : self.input_size], noise[..., self.input_size :]
            weight = torch.addcmul(weight, self.weight_sigma, into.transpose(1, 2) * out)
            bias = torch.addcmul(bias, self.bias_sigma, out)
        y = torch.baddbmm(bias, x.reshape(self.n, -1, self.input_size), weight)
        return self.activation(y.reshape(*x.shape[:-1], self.output_size))

    def replica_tensors(self, i: int, layer: nn.Module) -> list[tuple[Tensor, Tensor]]:
        """Pairs of this layer's views and the tensors of `layer`, see `ParallelLayer`."""
        assert isinstance(layer, NoisyFC)
        return [
            (self.weight[i].t(), layer.weight),
            (self.weight_sigma[i].t(), layer.weight_sigma),
            (self.bias[i, 0], layer.bias),
            (self.bias_sigma[i, 0], layer.bias_sigma),
        ]
