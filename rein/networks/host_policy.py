"""Policies evaluated by numpy: the actions that their networks give, up to rounding, from noise drawn beforehand.

They are what a quick rollout needs, see `QuickActor`. Each takes observations [B, n], and none carries anything from step to
step. A policy of another kind has none here: `of` returns None for it.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from rein.distributions import standard_gumbel
from rein.networks.actor_distribution_networks import ActorDistributionNetwork
from rein.networks.actor_networks import ActorNetwork
from rein.networks.host_layers import Array, HostLayers, clamp, stretch
from rein.networks.layers import FC
from rein.networks.network import Network
from rein.networks.normal_projection_networks import NormalProjectionNetwork, StableNormalProjectionNetwork
from rein.networks.parallel import ParallelNetwork
from rein.networks.projection_networks import CategoricalProjectionNetwork
from rein.networks.q_networks import QNetwork

MAX_WEIGHTS = 50_000
"""Where infos need the network once more, more weights than this make it too dear to ask it twice."""


class HostPolicy:
    """Draws actions of an `ActorDistributionNetwork`."""

    num_carried = 0

    @staticmethod
    def of(network: Network, max_weights: int | None = MAX_WEIGHTS) -> "HostPolicy | None":
        """The policy of `network`; None if it is not made of fully connected layers and a plain distribution.

        Args:
            network: any network; of `ActorDistributionNetwork`, those with one vector as observation, no normalization
                layers, and one action, categorical or normal, squashed or not.
            max_weights: of larger networks there is none; None takes any.
        """
        if type(network) is not ActorDistributionNetwork or len(network.projections) != 1:
            return None
        trunk, projection = HostLayers.of_encoder(network.trunk), network.projections[0]
        head: _Choices | _Normals | None = None
        if type(projection) is CategoricalProjectionNetwork and projection.action_spec.ndim == 0:
            head = _Choices.of(projection)
        elif type(projection) in (NormalProjectionNetwork, StableNormalProjectionNetwork):
            head = _Normals.of(projection)
        if trunk is None or head is None:
            return None
        is_large = max_weights is not None and trunk.num_weights + head.num_weights > max_weights
        return None if is_large else HostPolicy(trunk, head)

    def __init__(self, trunk: HostLayers, head: "_Choices | _Normals") -> None:
        """Keeps the layers; see `of`.

        Args:
            trunk: the encoder.
            head: makes actions of what it gives.
        """
        self._trunk, self._head = trunk, head

    def draw_noise(self, *shape: int) -> Array:
        """Noise for actions at `shape` observations, from torch's generator, [*shape, n]; call it after each update."""
        self._trunk.refresh()
        return self._head.draw_noise(shape)

    def act(self, observation: Array, noise: Array, carried: Sequence[Array] = ()) -> Array:
        """Actions [B, ...] at observations [B, n], with noise [B, ...] of `draw_noise`."""
        return self._head.act(self._trunk(observation), noise)


class _Choices:
    """Samples of a categorical projection: the best logit plus Gumbel noise."""

    @staticmethod
    def of(projection: Any) -> "_Choices | None":
        layers = HostLayers.of([projection.logits])
        return None if layers is None else _Choices(layers, projection.logits.output_size)

    def __init__(self, layers: HostLayers, num_choices: int) -> None:
        self._layers, self._num_choices = layers, num_choices
        self.num_weights = layers.num_weights

    def draw_noise(self, shape: tuple[int, ...]) -> Array:
        self._layers.refresh()
        return gumbel(*shape, self._num_choices)

    def act(self, x: Array, noise: Array) -> Array:
        logits = self._layers(x)
        logits += noise
        choice: Array = logits.argmax(-1)
        return choice


class _Normals:
    """Samples of a projection onto normals: means, and deviations that depend on the observation or not."""

    @staticmethod
    def of(projection: Any) -> "_Normals | None":
        means = HostLayers.of([projection.mean])
        deviations = HostLayers.of([projection.std]) if isinstance(projection.std, FC) else None
        if means is None or (deviations is None and isinstance(projection.std, FC)):
            return None
        return _Normals(projection, means, deviations)

    def __init__(self, projection: Any, means: HostLayers, deviations: HostLayers | None) -> None:
        self._projection, self._means, self._deviations = projection, means, deviations
        self.num_weights = means.num_weights + (0 if deviations is None else deviations.num_weights)
        self._deviation: Any = None

    def draw_noise(self, shape: tuple[int, ...]) -> Array:
        self._means.refresh()
        if self._deviations is not None:
            self._deviations.refresh()
        else:
            with torch.no_grad():
                self._deviation = self._projection.deviation(self._projection.std.value).numpy()
        return torch.randn(*shape, self._projection.mean.output_size).numpy()

    def act(self, x: Array, noise: Array) -> Array:
        projection, deviation = self._projection, self._deviation
        if self._deviations is not None:
            # One implementation of what makes a deviation of a number; its few operations cost little.
            deviation = projection.deviation(torch.from_numpy(self._deviations(x))).numpy()
        action = self._means(x)
        if projection.means_are_ratios:
            action *= deviation
        if projection.squashes_mean:
            np.tanh(action, out=action)
            if not projection.scales_distribution:
                action = stretch(action, projection.bounds)
        action += deviation * noise
        if projection.scales_distribution and projection.clips:
            action = clamp(action, projection.bounds)
        elif projection.scales_distribution:
            action = stretch(np.tanh(action, out=action), projection.bounds)
        return action.reshape(-1, *projection.action_spec.shape)


class HostActor:
    """The actions of an `ActorNetwork`."""

    @staticmethod
    def of(network: Network) -> "HostActor | None":
        """The policy of `network`; None if it is not made of fully connected layers, or gives several actions."""
        if type(network) is not ActorNetwork or len(network.heads) != 1:
            return None
        layers = HostLayers.of_encoder(network.trunk, network.heads[0])
        return None if layers is None else HostActor(layers, network)

    def __init__(self, layers: HostLayers, network: ActorNetwork) -> None:
        """Keeps the layers; see `of`."""
        self._layers, self._network = layers, network

    def refresh(self) -> None:
        """Call it after each update."""
        self._layers.refresh()

    def __call__(self, observation: Array) -> Array:
        """Actions [B, n], flat, at observations [B, m]."""
        action = self._layers(observation)
        bounds = self._network.head_bounds
        return action if bounds is None else stretch(action, bounds)


class _HostValues:
    """The lowest of the values of replicas of a `QNetwork`."""

    @staticmethod
    def of(networks: Network) -> "_HostValues | None":
        """The values of `networks`, of `make_parallel`; None if they are not plain."""
        stacked = networks.stacked if type(networks) is ParallelNetwork else None
        if type(stacked) is not QNetwork or stacked.head.value is not None or stacked.head.has_quantiles:
            return None
        last: list[Any] = list(stacked.head.advantage._modules.values())
        layers = HostLayers.of_encoder(stacked.trunk, *last)
        return None if layers is None else _HostValues(layers, last[-1].output_size)

    def __init__(self, layers: HostLayers, num_actions: int) -> None:
        self._layers, self.num_actions = layers, num_actions

    def refresh(self) -> None:
        self._layers.refresh()

    def __call__(self, observation: Array) -> Array:
        """[B, num_actions] at observations [B, n]."""
        values = self._layers(observation)
        lowest: Array = values[0] if len(values) == 1 else values.min(0)
        return lowest


class _Chance(NamedTuple):
    """Which actions of a step are random."""

    action: Array
    """[B] int64, what they are."""
    is_random: Array
    """[B]"""
    num_random: int


class HostGreedyPolicy:
    """The best action of replicas of a `QNetwork`, by the lowest of their values, or at times a random one."""

    num_carried = 0

    @staticmethod
    def of(networks: Network, epsilon: Callable[[], float]) -> "HostGreedyPolicy | None":
        """The policy of `networks`; None if they are not plain.

        Args:
            networks: of `make_parallel`.
            epsilon: gives the chance of a random action, asked at each `draw_noise`.
        """
        values = _HostValues.of(networks)
        return None if values is None else HostGreedyPolicy(values, epsilon)

    def __init__(self, values: _HostValues, epsilon: Callable[[], float]) -> None:
        """Keeps the values; see `of`."""
        self._values, self._epsilon = values, epsilon

    def draw_noise(self, *shape: int) -> Sequence[_Chance]:
        """Random actions to take in the steps of a rollout, `shape` = (T, B)."""
        self._values.refresh()
        uniform = torch.rand(2, *shape).numpy()
        action = (uniform[0] * self._values.num_actions).astype(np.int64)
        is_random = uniform[1] < self._epsilon()
        counts = is_random.sum(1).tolist()
        return list(map(_Chance._make, zip(action, is_random, counts, strict=True)))

    def act(self, observation: Array, noise: _Chance, carried: Sequence[Array] = ()) -> Array:
        """Actions [B] at observations [B, n]."""
        if noise.num_random == len(noise.action):
            # All are random: nobody asks what the network thinks.
            return noise.action
        best: Array = self._values(observation).argmax(-1)
        return np.where(noise.is_random, noise.action, best) if noise.num_random else best


class HostSoftPolicy:
    """Draws actions k with probability proportional to exp(Q(s, k) / alpha), Q the lowest of replicas of a `QNetwork`."""

    num_carried = 0

    @staticmethod
    def of(networks: Network, temperature: Callable[[], float]) -> "HostSoftPolicy | None":
        """The policy of `networks`; None if they are not plain.

        Args:
            networks: of `make_parallel`.
            temperature: gives alpha, asked at each `draw_noise`.
        """
        values = _HostValues.of(networks)
        return None if values is None else HostSoftPolicy(values, temperature)

    def __init__(self, values: _HostValues, temperature: Callable[[], float]) -> None:
        """Keeps the values; see `of`."""
        self._values, self._temperature = values, temperature
        self._alpha = 1.0

    def draw_noise(self, *shape: int) -> Array:
        """Gumbel noise for actions at `shape` observations, [*shape, A]."""
        self._values.refresh()
        self._alpha = self._temperature()
        return gumbel(*shape, self._values.num_actions)

    def act(self, observation: Array, noise: Array, carried: Sequence[Array] = ()) -> Array:
        """Actions [B] at observations [B, n], with noise [B, A] of `draw_noise`."""
        choice: Array = (self._values(observation) / self._alpha + noise).argmax(-1)
        return choice


def gumbel(*shape: int) -> Array:
    """Standard Gumbel noise from torch's generator."""
    return standard_gumbel(torch.empty(*shape)).numpy()
