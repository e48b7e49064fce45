"""Fully connected layers evaluated by numpy, on the very weights that torch trains.

For a handful of observations, calling torch's operations costs several times what they compute. Numpy's calls are cheaper,
and a tensor and an array can share their memory: what is here follows each update of a network without copying anything.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rein.distributions import Bounds
from rein.networks.encoding_networks import EncodingNetwork
from rein.networks.layers import FC, identity
from rein.networks.layers.fc import ParallelFC
from rein.networks.network import Network

LARGEST_PRODUCT = 2**18
"""Multiplications in a product by numpy. Larger ones it spreads over all cores, which stalls where others use them, so torch
makes those, by as many threads as the run has chosen."""

Array = NDArray[Any]
_ACTIVATIONS: dict[Any, Callable[[Array], object]] = {
    torch.tanh: lambda x: np.tanh(x, out=x),
    torch.relu: lambda x: np.maximum(x, 0.0, out=x),
    torch.relu_: lambda x: np.maximum(x, 0.0, out=x),
    nn.functional.relu: lambda x: np.maximum(x, 0.0, out=x),
    identity: lambda x: None,
}


class _HostLayer(NamedTuple):
    """One layer, in the memory of its parameters."""

    weight: Array
    """[n, m], or [R, n, m] for R replicas."""
    bias: Array | None
    activate: Callable[[Array], object]
    """Works in place."""
    tensor: Tensor
    """The weight."""
    most_rows: int
    """Rows that make no larger product than `LARGEST_PRODUCT`."""


class HostLayers:
    """Fully connected layers, one replica or many."""

    @staticmethod
    def of(layers: Sequence[Any] | None) -> "HostLayers | None":
        """The layers; None if there are none, or not all are fully connected, plain, and on the host."""
        return HostLayers(list(layers)) if layers is not None and all(map(_is_plain, layers)) else None

    @staticmethod
    def of_encoder(trunk: Network, *after: Any) -> "HostLayers | None":
        """The layers of an encoder and those `after` it; None if not all are plain."""
        if type(trunk) is not EncodingNetwork or trunk.preprocessing is not None:
            return None
        return HostLayers.of([*trunk.layers._modules.values(), *after])

    def __init__(self, layers: list[Any]) -> None:
        """Keeps the layers; see `of`."""
        self._layers = layers
        self.num_weights = sum(layer.weight.numel() for layer in layers)
        self._found: list[_HostLayer] = []
        self._addresses: list[int] = []

    def refresh(self) -> None:
        """Looks for the weights anew; needed only if they are elsewhere now, not if their values changed."""
        parameters = [tensor for layer in self._layers for tensor in layer._parameters.values() if tensor is not None]
        addresses = [tensor.data_ptr() for tensor in parameters]
        if addresses != self._addresses:
            self._addresses = addresses
            self._found = [_host_layer(layer) for layer in self._layers]

    def __call__(self, x: Array) -> Array:
        """Maps [B, n] to [B, m], or to [R, B, m] for R replicas; the result is a new array if there are layers."""
        for weight, bias, activate, tensor, most_rows in self._found:
            if x.shape[-2] <= most_rows:
                x = x @ weight
            else:
                x = torch.matmul(torch.from_numpy(x), tensor).numpy()
            if bias is not None:
                x += bias
            activate(x)
        return x


def stretch(unit: Array, bounds: Bounds) -> Array:
    """What `Bounds.from_unit` gives for [B, n] in [-1, 1]; may be the same array."""
    if bounds.is_unit:
        return unit
    unit *= _flat(bounds.half_width)
    unit += _flat(bounds.center)
    return clamp(unit, bounds)


def clamp(x: Array, bounds: Bounds) -> Array:
    """[B, n] moved into the bounds, in place."""
    np.maximum(x, _flat(bounds.low), out=x)
    return np.minimum(x, _flat(bounds.high), out=x)


def _flat(bound: float | Tensor) -> Any:
    return bound.numpy().reshape(-1) if isinstance(bound, Tensor) else bound


def _is_plain(layer: Any) -> bool:
    return (
        type(layer) in (FC, ParallelFC)
        and layer.norm is None
        and layer.activation in _ACTIVATIONS
        and layer.weight.is_cpu
        and layer.weight.dtype == torch.float32
    )


def _host_layer(layer: FC | ParallelFC) -> _HostLayer:
    weight = layer.weight.detach()
    weight = weight.t() if isinstance(layer, FC) else weight
    bias = None if layer.bias is None else layer.bias.detach().numpy()
    most_rows = LARGEST_PRODUCT // (layer.input_size * layer.output_size)
    return _HostLayer(weight.numpy(), bias, _ACTIVATIONS[layer.activation], weight, most_rows)
