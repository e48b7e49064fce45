"""Layer and batch normalization over the last dimensions, one replica or many."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rein.config import configurable
from rein.networks.layers.layer import Layer, ParallelLayer, check_sizes


@configurable
class LayerNorm(Layer):
    """Layer normalization over the last dimensions, with learnt scale and shift."""

    def __init__(self, shape: Sequence[int], eps: float = 1e-5) -> None:
        """Starts with scale one and shift zero.

        Args:
            shape: the last dimensions of the input, normalized together.
            eps: added to the variance.
        """
        super().__init__()
        self.shape = tuple(shape)
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(self.shape))
        self.bias = nn.Parameter(torch.zeros(self.shape))

    def reset_parameters(self) -> None:
        """Sets scale one and shift zero."""
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Maps [..., *shape] to the same shape."""
        return F.layer_norm(x, self.shape, self.weight, self.bias, self.eps)

    def new_parallel(self, n: int) -> "ParallelLayerNorm":
        """A `ParallelLayerNorm` of this layer's shape."""
        return ParallelLayerNorm(self, n)


class ParallelLayerNorm(ParallelLayer):
    """`n` layer normalizations, [n, ..., *shape] to the same shape."""

    def __init__(self, layer: LayerNorm, n: int) -> None:
        """Takes the shape of `layer`; the parameters are to be loaded."""
        super().__init__(n)
        self.shape = layer.shape
        self.eps = layer.eps
        self.weight = nn.Parameter(layer.weight.new_empty(n, *self.shape))
        self.bias = nn.Parameter(layer.bias.new_empty(n, *self.shape))

    def forward(self, x: Tensor) -> Tensor:
        """Maps [n, ..., *shape] to the same shape."""
        y = F.layer_norm(x, self.shape, None, None, self.eps)
        view = (self.n,) + (1,) * (x.ndim - 1 - len(self.shape)) + self.shape
        return torch.addcmul(self.bias.view(view), y, self.weight.view(view))

    def replica_tensors(self, i: int, layer: nn.Module) -> list[tuple[Tensor, Tensor]]:
        """Pairs of this layer's views and the tensors of `layer`, see `ParallelLayer`."""
        assert isinstance(layer, LayerNorm)
        return [(self.weight[i], layer.weight), (self.bias[i], layer.bias)]


class _BatchNorm(nn.Module):
    """The running statistics and the normalization of [batch, channels, *positions]."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int, eps: float, momentum: float) -> None:
        nn.Module.__init__(self)
        self.eps = eps
        self.momentum = momentum
        self.weight = nn.Parameter(torch.ones(channels))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.register_buffer("running_mean", torch.zeros(channels))
        self.register_buffer("running_var", torch.ones(channels))

    def reset_parameters(self) -> None:
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)
        self.running_mean.zero_()
        self.running_var.fill_(1.0)

    def normalize(self, x: Tensor) -> Tensor:
        return F.batch_norm(
            x,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training,
            self.momentum,
            self.eps,
        )


@configurable
class BatchNorm(_BatchNorm, Layer):
    """Batch normalization of [..., channels, *positions] over all but the channels.

    In training mode statistics are those of the batch and the running ones move; in evaluation mode the
    running ones are used.
    """

    def __init__(self, channels: int, position_dims: int = 0, eps: float = 1e-5, momentum: float = 0.1) -> None:
        """Starts with scale one, shift zero.

        Args:
            channels: number of features or image channels.
            position_dims: dimensions after the channels: 0 for vectors, 2 for images.
            eps: added to the variance.
            momentum: weight of the newest batch in the running statistics.
        """
        check_sizes("BatchNorm", channels=channels)
        super().__init__(channels, eps, momentum)
        self.channels = channels
        self.position_dims = position_dims

    def forward(self, x: Tensor) -> Tensor:
        """Maps [..., channels, *positions] to the same shape."""
        tail = x.shape[x.ndim - 1 - self.position_dims :]
        return self.normalize(x.reshape(-1, *tail)).reshape(x.shape)

    def new_parallel(self, n: int) -> "ParallelBatchNorm":
        """A `ParallelBatchNorm` of this layer's channels."""
        return ParallelBatchNorm(self, n)


class ParallelBatchNorm(_BatchNorm, ParallelLayer):
    """`n` batch normalizations, [n, ..., channels, *positions] to the same shape."""

    def __init__(self, layer: BatchNorm, n: int) -> None:
        """Takes the settings of `layer`; parameters and statistics are to be loaded."""
        super().__init__(n * layer.channels, layer.eps, layer.momentum)
        self.n = n
        self.channels = layer.channels
        self.position_dims = layer.position_dims
        self.to(layer.weight.device)

    def forward(self, x: Tensor) -> Tensor:
        """Maps [n, ..., channels, *positions] to the same shape."""
        tail = x.shape[x.ndim - 1 - self.position_dims :]
        batch_first = x.reshape(self.n, -1, *tail).transpose(0, 1)
        merged = batch_first.reshape(-1, self.n * self.channels, *tail[1:])
        y = self.normalize(merged).reshape(-1, self.n, *tail)
        return y.transpose(0, 1).reshape(x.shape)

    def replica_tensors(self, i: int, layer: nn.Module) -> list[tuple[Tensor, Tensor]]:
        """Pairs of this layer's views and the tensors of `layer`, see `ParallelLayer`."""
        assert isinstance(layer, BatchNorm)
        part = slice(i * self.channels, (i + 1) * self.channels)
        return [
            (self.weight[part], layer.weight),
            (self.bias[part], layer.bias),
            (self.running_mean[part], layer.running_mean),
            (self.running_var[part], layer.running_var),
        ]


@configurable
class ChannelNorm(Layer):
    """Normalizes each image over channels and positions, with a learnt scale and shift per channel."""

    def __init__(self, channels: int, eps: float = 1e-5) -> None:
        """Starts with scale one and shift zero.

        Args:
            channels: number of image channels.
            eps: added to the variance.
        """
        check_sizes("ChannelNorm", channels=channels)
        super().__init__()
        self.channels = channels
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(channels, 1, 1))
        self.bias = nn.Parameter(torch.zeros(channels, 1, 1))

    def reset_parameters(self) -> None:
        """Sets scale one and shift zero."""
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Maps [..., channels, H, W] to the same shape."""
        y = F.layer_norm(x, x.shape[-3:], None, None, self.eps)
        return torch.addcmul(self.bias, y, self.weight)

    def new_parallel(self, n: int) -> "ParallelChannelNorm":
        """A `ParallelChannelNorm` of this layer's channels."""
        return ParallelChannelNorm(self, n)


class ParallelChannelNorm(ParallelLayer):
    """`n` channel normalizations, [n, ..., channels, H, W] to the same shape."""

    def __init__(self, layer: ChannelNorm, n: int) -> None:
        """Takes the settings of `layer`; the parameters are to be loaded."""
        super().__init__(n)
        self.channels = layer.channels
        self.eps = layer.eps
        self.weight = nn.Parameter(layer.weight.new_empty(n, layer.channels))
        self.bias = nn.Parameter(layer.bias.new_empty(n, layer.channels))

    def forward(self, x: Tensor) -> Tensor:
        """Maps [n, ..., channels, H, W] to the same shape."""
        y = F.layer_norm(x, x.shape[-3:], None, None, self.eps)
        view = (self.n,) + (1,) * (x.ndim - 4) + (self.channels, 1, 1)
        return torch.addcmul(self.bias.view(view), y, self.weight.view(view))

    def replica_tensors(self, i: int, layer: nn.Module) -> list[tuple[Tensor, Tensor]]:
        """Pairs of this layer's views and the tensors of `layer`, see `ParallelLayer`."""
        assert isinstance(layer, ChannelNorm)
        return [(self.weight[i, :, None, None], layer.weight), (self.bias[i, :, None, None], layer.bias)]
