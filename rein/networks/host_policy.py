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
from rein.networks.layers.fc import ParallelFC
from rein.networks.network import Network
from rein.networks.normal_projection_networks import NormalProjectionNetwork
from rein.networks.parallel import ParallelNetwork
from rein.networks.projection_networks import CategoricalProjectionNetwork
from rein.networks.q_networks import QNetwork

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


class HostLayers:
    """Fully connected layers, one replica or many."""

    @staticmethod
    def of(trunk: Network, last: list[Any]) -> "HostLayers | None":
        """The layers of an encoder and those after it; None if not all are plain, or if they are large.

        Args:
            trunk: the encoder.
            last: layers after it.
        """
        if type(trunk) is not EncodingNetwork or trunk.preprocessing is not None:
            return None
        layers = [*trunk.layers._modules.values(), *last]
        if not all(map(_is_plain, layers)) or sum(layer.weight.numel() for layer in layers) > MAX_WEIGHTS:
            return None
        return HostLayers(layers)

    def __init__(self, layers: list[Any]) -> None:
        """Keeps the layers; see `of`."""
        self._layers = layers
        self.output_size: int = layers[-1].output_size
        self._arrays: list[tuple[Array, Array | None, Callable[[Array], object]]] = []
        self._addresses: list[int] = []

    def refresh(self) -> None:
        """Looks for the weights anew; needed only if they are elsewhere now, not if their values changed."""
        parameters = [tensor for layer in self._layers for tensor in layer._parameters.values() if tensor is not None]
        addresses = [tensor.data_ptr() for tensor in parameters]
        if addresses == self._addresses:
            return
        self._addresses = addresses
        self._arrays = [(_weight(layer), _array(layer.bias), _ACTIVATIONS[layer.activation]) for layer in self._layers]

    def __call__(self, x: Array) -> Array:
        """Maps [B, n] to [B, output_size], or to [R, B, output_size] for R replicas; the result is a new array."""
        for weight, bias, activate in self._arrays:
            x = x @ weight
            if bias is not None:
                x += bias
            activate(x)
        return x


class HostPolicy:
    """Draws actions of an `ActorDistributionNetwork`: its samples, up to rounding, from noise drawn beforehand."""

    @staticmethod
    def of(network: Network) -> "HostPolicy | None":
        """The policy of `network`; None if it is not made of small fully connected layers and a plain distribution.

        Args:
            network: any network; of `ActorDistributionNetwork`, those with one vector as observation, no normalization
                layers, and one action, categorical or normal with a deviation that the observation does not change.
        """
        if type(network) is not ActorDistributionNetwork or len(network.projections) != 1:
            return None
        projection = network.projections[0]
        if type(projection) is CategoricalProjectionNetwork and projection.action_spec.ndim == 0:
            layers = HostLayers.of(network.trunk, [projection.logits])
        elif type(projection) is NormalProjectionNetwork and projection.is_simple:
            layers = HostLayers.of(network.trunk, [projection.mean])
        else:
            return None
        return None if layers is None else HostPolicy(layers, projection)

    def __init__(self, layers: HostLayers, projection: CategoricalProjectionNetwork | NormalProjectionNetwork) -> None:
        """Keeps the layers; see `of`.

        Args:
            layers: from the observation to the logits or the mean.
            projection: what makes a distribution of them.
        """
        self._layers = layers
        self._projection = projection
        self._is_discrete = isinstance(projection, CategoricalProjectionNetwork)
        self._std: Any = None
        self._bounds = projection.mean_bounds() if isinstance(projection, NormalProjectionNetwork) else None

    def draw_noise(self, *shape: int) -> Array:
        """Noise for actions at `shape` observations, from torch's generator, [*shape, n]; call it after each update."""
        self._layers.refresh()
        like = torch.empty(*shape, self._layers.output_size)
        if isinstance(self._projection, CategoricalProjectionNetwork):
            return standard_gumbel(like).numpy()
        with torch.no_grad():
            self._std = self._projection.constant_std().numpy()
        return torch.randn_like(like).numpy()

    def act(self, observation: Array, noise: Array) -> Array:
        """Actions [B, ...] at observations [B, n], with noise [B, ...] of `draw_noise`."""
        x = self._layers(observation)
        if self._is_discrete:
            x += noise
            choice: Array = x.argmax(-1)
            return choice
        if self._bounds is not None:
            x = np.tanh(x, out=x) * np.asarray(self._bounds.half_width, x.dtype)
            x += np.asarray(self._bounds.center, x.dtype)
        x += self._std * noise
        return x.reshape(-1, *self._projection.action_spec.shape)


class HostGreedyPolicy:
    """The best action of replicas of a `QNetwork`, by the lowest of their values, or at times a random one."""

    @staticmethod
    def of(networks: Network, epsilon: Callable[[], float]) -> "HostGreedyPolicy | None":
        """The policy of `networks`; None if they are not small and plain.

        Args:
            networks: of `make_parallel`.
            epsilon: gives the chance of a random action, asked at each `draw_noise`.
        """
        stacked = networks.stacked if type(networks) is ParallelNetwork else None
        if type(stacked) is not QNetwork or stacked.head.value is not None or stacked.head.has_quantiles:
            return None
        layers = HostLayers.of(stacked.trunk, list(stacked.head.advantage._modules.values()))
        return None if layers is None else HostGreedyPolicy(layers, epsilon)

    def __init__(self, layers: HostLayers, epsilon: Callable[[], float]) -> None:
        """Keeps the layers; see `of`."""
        self._layers = layers
        self._epsilon = epsilon

    def draw_noise(self, *shape: int) -> Array:
        """Random actions to take at `shape` observations, int64; -1 where the best is to be taken."""
        self._layers.refresh()
        uniform = torch.rand(2, *shape).numpy()
        action = (uniform[0] * self._layers.output_size).astype(np.int64)
        action[uniform[1] >= self._epsilon()] = -1
        return action

    def act(self, observation: Array, noise: Array) -> Array:
        """Actions [B] at observations [B, n], with noise [B] of `draw_noise`."""
        if noise.min() >= 0:
            # All are random: nobody asks what the network thinks.
            return noise
        values = self._layers(observation)
        values = values[0] if len(values) == 1 else values.min(0)
        return np.where(noise < 0, values.argmax(-1), noise)


def _is_plain(layer: Any) -> bool:
    return (
        type(layer) in (FC, ParallelFC)
        and layer.norm is None
        and layer.activation in _ACTIVATIONS
        and layer.weight.is_cpu
        and layer.weight.dtype == torch.float32
    )


def _weight(layer: FC | ParallelFC) -> Array:
    weight: Array = layer.weight.detach().numpy()
    return weight.T if isinstance(layer, FC) else weight


def _array(parameter: Tensor | None) -> Array | None:
    return None if parameter is None else parameter.detach().numpy()
