"""Small policies evaluated by numpy, on the very weights that torch trains.

For a handful of observations and a network of some thousand weights, calling torch's operations costs several times what
they compute. Numpy's calls are cheaper, and a tensor and an array can share their memory: a `HostPolicy` follows each
update of the network without copying anything.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rein.distributions import standard_gumbel
from rein.networks.actor_distribution_networks import ActorDistributionNetwork
from rein.networks.encoding_networks import EncodingNetwork
from rein.networks.layers import FC, identity
from rein.networks.network import Network
from rein.networks.normal_projection_networks import NormalProjectionNetwork
from rein.networks.projection_networks import CategoricalProjectionNetwork

MAX_WEIGHTS = 50_000
"""Beyond this many weights the products themselves take the time, and torch's are as fast."""

Array = NDArray[Any]
_ACTIVATIONS: dict[Any, Callable[[Array], object]] = {
    torch.tanh: lambda x: np.tanh(x, out=x),
    torch.relu: lambda x: np.maximum(x, 0.0, out=x),
    torch.relu_: lambda x: np.maximum(x, 0.0, out=x),
    nn.functional.relu: lambda x: np.maximum(x, 0.0, out=x),
    identity: lambda x: None,
}


class HostPolicy:
    """Draws actions of an `ActorDistributionNetwork`: its samples, up to rounding, from noise drawn beforehand."""

    @staticmethod
    def of(network: Network) -> "HostPolicy | None":
        """The policy of `network`; None if it is not made of small fully connected layers and a plain distribution.

        Args:
            network: any network; of `ActorDistributionNetwork`, those with one vector as observation, no normalization
                layers, and one action, categorical or normal with a deviation that the observation does not change.
        """
        if type(network) is not ActorDistributionNetwork or type(network.trunk) is not EncodingNetwork:
            return None
        if network.trunk.preprocessing is not None or len(network.projections) != 1:
            return None
        layers: list[Any] = list(network.trunk.layers._modules.values())
        projection = network.projections[0]
        if type(projection) is CategoricalProjectionNetwork and projection.action_spec.ndim == 0:
            layers.append(projection.logits)
        elif type(projection) is NormalProjectionNetwork and projection.is_simple:
            layers.append(projection.mean)
        else:
            return None
        is_small = sum(parameter.numel() for parameter in network.parameters()) <= MAX_WEIGHTS
        return HostPolicy(layers, projection) if is_small and all(map(_is_simple, layers)) else None

    def __init__(self, layers: list[FC], projection: CategoricalProjectionNetwork | NormalProjectionNetwork) -> None:
        """Keeps the layers; see `of`.

        Args:
            layers: from the observation to the logits or the mean.
            projection: what makes a distribution of them.
        """
        self._layers = layers
        self._projection = projection
        self._is_discrete = isinstance(projection, CategoricalProjectionNetwork)
        self._weights: list[tuple[Array, Array | None, Callable[[Array], object]]] = []
        self._std: Any = None
        self._bounds = projection.mean_bounds() if isinstance(projection, NormalProjectionNetwork) else None

    def draw_noise(self, *shape: int) -> Array:
        """Noise for actions at `shape` observations, from torch's generator, [*shape, n]; call it after each update."""
        self._weights = [
            (_array(fc.weight).T, None if fc.bias is None else _array(fc.bias), _ACTIVATIONS[fc.activation])
            for fc in self._layers
        ]
        like = torch.empty(*shape, self._layers[-1].output_size)
        if self._is_discrete:
            return standard_gumbel(like).numpy()
        assert isinstance(self._projection, NormalProjectionNetwork)
        with torch.no_grad():
            self._std = self._projection.constant_std().numpy()
        return torch.randn_like(like).numpy()

    def act(self, observation: Array, noise: Array) -> Array:
        """Actions [B, ...] at observations [B, n], with noise [B, ...] of `draw_noise`."""
        x = observation
        for weight, bias, activate in self._weights:
            x = x @ weight
            if bias is not None:
                x += bias
            activate(x)
        if self._is_discrete:
            x += noise
            choice: Array = x.argmax(-1)
            return choice
        if self._bounds is not None:
            x = np.tanh(x, out=x) * np.asarray(self._bounds.half_width, x.dtype)
            x += np.asarray(self._bounds.center, x.dtype)
        x += self._std * noise
        return x.reshape(-1, *self._projection.action_spec.shape)


def _is_simple(layer: object) -> bool:
    return (
        type(layer) is FC
        and layer.norm is None
        and layer.activation in _ACTIVATIONS
        and layer.weight.is_cpu
        and layer.weight.dtype == torch.float32
    )


def _array(parameter: Tensor) -> Array:
    array: Array = parameter.detach().numpy()
    return array
