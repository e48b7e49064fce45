"""Fully connected networks of `SimpleMCTSModel`: encoder, dynamics and prediction."""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rein import nest
from rein.algorithms.search.roots import SearchRoot
from rein.config import configurable
from rein.nest import Nest
from rein.networks import CategoricalProjectionNetwork, EncodingNetwork, Network, StableNormalProjectionNetwork
from rein.networks.layers import FC
from rein.specs import BoundedTensorSpec, TensorSpec

_SIDE_FIELDS = SearchRoot._fields[1:]
_SMALLEST_RANGE = 1e-5


def min_max_normalized(x: Tensor) -> Tensor:
    """Each row of [B, n] scaled to [0, 1] (Schrittwieser et al. 2020, appendix G)."""
    low, high = x.amin(-1, keepdim=True), x.amax(-1, keepdim=True)
    return (x - low) / (high - low).clamp_min(_SMALLEST_RANGE)


def seen_by_the_model(observation: Nest) -> Nest:
    """An observation without the fields of a dictionary that only the search uses."""
    if isinstance(observation, dict):
        return {name: part for name, part in observation.items() if name not in _SIDE_FIELDS}
    return observation


class LatentEncodingNetwork(Network):
    """Flattens an observation, encodes it by fully connected layers and scales the result to [0, 1].

    Of a dictionary the fields that only the search uses (`valid_action_mask`, `steps`, `to_play`) are left out.
    """

    def __init__(
        self, input_tensor_spec: Nest, fc_layer_params: Sequence[int], name: str = "LatentEncodingNetwork"
    ) -> None:
        """Builds the layers.

        Args:
            input_tensor_spec: nest of specs of the observation.
            fc_layer_params: sizes of the layers; the last is the size of the latent.
            name: of this network.
        """
        super().__init__(input_tensor_spec, name=name)
        leaves = nest.flatten(seen_by_the_model(input_tensor_spec))
        if not leaves or not fc_layer_params:
            raise ValueError(
                f"{name}: needs something to encode and a layer, got {input_tensor_spec}, {fc_layer_params}"
            )
        sizes = [sum(spec.numel for spec in leaves), *fc_layer_params]
        self.layers = nn.ModuleList(FC(into, out, torch.relu_) for into, out in itertools.pairwise(sizes))

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[Tensor, Nest]:
        """Latents [B, n] of observations [B, ...]."""
        leaves = [
            leaf.flatten(1).float() if leaf.ndim > 1 else leaf.unsqueeze(1).float()
            for leaf in nest.flatten(seen_by_the_model(inputs))
        ]
        x = leaves[0] if len(leaves) == 1 else torch.cat(leaves, 1)
        for layer in self.layers:
            x = layer(x)
        return min_max_normalized(x), state


class LatentDynamicsNetwork(Network):
    """From a latent and an action to the next latent, in [0, 1]."""

    def __init__(
        self,
        input_tensor_spec: tuple[TensorSpec, BoundedTensorSpec],
        fc_layer_params: Sequence[int],
        name: str = "LatentDynamicsNetwork",
    ) -> None:
        """Builds the layers.

        Args:
            input_tensor_spec: specs of the latent, a vector, and of the action.
            fc_layer_params: sizes of the hidden layers.
            name: of this network.
        """
        super().__init__(input_tensor_spec, name=name)
        latent, action = input_tensor_spec
        self.choices = _choices(action)
        width = sum(self.choices) if self.choices else action.numel
        sizes = [latent.numel + width, *fc_layer_params, latent.numel]
        self.layers = nn.ModuleList(FC(into, out, torch.relu_) for into, out in itertools.pairwise(sizes))

    def forward(self, inputs: tuple[Tensor, Tensor], state: Nest = ()) -> tuple[Tensor, Nest]:
        """The next latents [B, n]."""
        latent, action = inputs
        x = torch.cat([latent, self._encoded(action)], 1)
        for layer in self.layers:
            x = layer(x)
        return min_max_normalized(x), state

    def _encoded(self, action: Tensor) -> Tensor:
        if not self.choices:
            return action.reshape(len(action), -1).float()
        parts = action.reshape(len(action), -1).unbind(1)
        return torch.cat([F.one_hot(part.long(), n).float() for part, n in zip(parts, self.choices, strict=True)], 1)


def _choices(action_spec: BoundedTensorSpec) -> list[int]:
    """Numbers of choices of a discrete action, one per element; empty for a continuous one."""
    if not action_spec.is_discrete:
        return []
    sizes = torch.tensor(action_spec.maximum) - torch.tensor(action_spec.minimum) + 1
    return [int(size) for size in sizes.expand(action_spec.shape).reshape(-1)]


@configurable
class SimplePredictionNet(Network):
    """A trunk and four heads: value, reward, distribution of actions, logit of the end."""

    def __init__(
        self,
        observation_spec: TensorSpec,
        action_spec: BoundedTensorSpec,
        trunk_net_ctor: Callable[..., Network],
        num_quantiles: int = 1,
        discrete_projection_net_ctor: Callable[..., Network] = CategoricalProjectionNetwork,
        continuous_projection_net_ctor: Callable[..., Network] = StableNormalProjectionNetwork,
        initial_game_over_bias: float = 0.0,
    ) -> None:
        """Builds the heads; the weights of value, reward and end start at zero.

        Args:
            observation_spec: spec of the latent.
            action_spec: bounded spec of the action.
            trunk_net_ctor: called as `ctor(input_tensor_spec=)`; gives a vector.
            num_quantiles: numbers that the heads of value and reward give; 1 gives [B], more [B, n].
            discrete_projection_net_ctor: called as `ctor(input_size=, action_spec=)` for a discrete action.
            continuous_projection_net_ctor: likewise for a continuous one.
            initial_game_over_bias: initial logit of the end, best log(p / (1 - p)) with p the chance of it.
        """
        super().__init__(observation_spec, name="SimplePredictionNet")
        self.trunk = trunk_net_ctor(input_tensor_spec=observation_spec)
        size = self.trunk.output_spec.numel
        self.num_quantiles = num_quantiles
        self.value = FC(size, num_quantiles, kernel_initializer=nn.init.zeros_)
        self.reward = FC(size, num_quantiles, kernel_initializer=nn.init.zeros_)
        self.game_over = FC(size, 1, kernel_initializer=nn.init.zeros_, bias_init_value=initial_game_over_bias)
        ctor = discrete_projection_net_ctor if action_spec.is_discrete else continuous_projection_net_ctor
        self.policy = ctor(input_size=size, action_spec=action_spec)

    def forward(self, input: Tensor, state: Nest = ()) -> tuple[Any, Nest]:
        """(value, reward, distribution of actions, logit of the end) of latents [B, ...], and `()`."""
        x, _ = self.trunk(input)
        value, reward = self.value(x), self.reward(x)
        if self.num_quantiles == 1:
            value, reward = value.squeeze(-1), reward.squeeze(-1)
        distribution, _ = self.policy(x)
        return (value, reward, distribution, self.game_over(x).squeeze(-1)), ()


@configurable
def create_simple_encoding_net(observation_spec: Nest, fc_layer_params: Sequence[int] = (256, 256)) -> Network:
    """The default encoder of `SimpleMCTSModel`.

    Args:
        observation_spec: nest of specs of the observation.
        fc_layer_params: sizes of the layers; the last is the size of the latent.
    """
    return LatentEncodingNetwork(observation_spec, fc_layer_params)


@configurable
def create_simple_dynamics_net(
    input_tensor_spec: tuple[TensorSpec, BoundedTensorSpec], fc_layer_params: Sequence[int] = (256, 256)
) -> Network:
    """The default dynamics network of `SimpleMCTSModel`.

    Args:
        input_tensor_spec: specs of the latent and of the action.
        fc_layer_params: sizes of the hidden layers.
    """
    return LatentDynamicsNetwork(input_tensor_spec, fc_layer_params)


@configurable
def create_simple_prediction_net(
    observation_spec: TensorSpec,
    action_spec: BoundedTensorSpec,
    fc_layer_params: Sequence[int] = (256,),
    initial_game_over_bias: float = 0.0,
    **options: Any,
) -> Network:
    """The default prediction network of `SimpleMCTSModel`.

    Args:
        observation_spec: spec of the latent.
        action_spec: bounded spec of the action.
        fc_layer_params: sizes of the layers of the trunk.
        initial_game_over_bias: initial logit of the end.
        **options: other arguments of `SimplePredictionNet`.
    """

    def trunk(input_tensor_spec: TensorSpec) -> Network:
        return EncodingNetwork(input_tensor_spec, fc_layer_params=tuple(fc_layer_params), activation=torch.relu_)

    return SimplePredictionNet(
        observation_spec, action_spec, trunk, initial_game_over_bias=initial_game_over_bias, **options
    )
