"""Deterministic policies."""

from collections.abc import Callable, Sequence
from typing import Self

import torch
from torch import Tensor, nn

from rein import nest
from rein.config import configurable
from rein.distributions import Bounds
from rein.nest import Nest
from rein.networks.chains import ConvLayerParams, LayerSizes, small_uniform, vector_size
from rein.networks.item_paths import pack_items
from rein.networks.layers import FC, LSTMLayer, identity
from rein.networks.layers.initializers import Activation, Initializer
from rein.networks.network import Network
from rein.networks.recurrent import CellCtor
from rein.networks.trunks import Memory, make_trunk
from rein.specs import BoundedTensorSpec


class _ActionHeads(Network):
    """A trunk and one output layer for each continuous action of a nest."""

    leading_dims_agnostic = True

    trunk: Network

    def __init__(self, input_tensor_spec: Nest, action_spec: Nest, name: str) -> None:
        super().__init__(input_tensor_spec, name=name)
        for path, spec in nest.flatten_with_paths(action_spec):
            if not isinstance(spec, BoundedTensorSpec) or not spec.is_continuous:
                raise ValueError(f"{name}: action {path!r} must be continuous with bounds, got {spec}")
        self._action_spec = action_spec

    def _build_heads(self, squashing_func: Activation | None) -> None:
        size = vector_size(self.trunk.output_spec, self.name)
        self._squashes = squashing_func is not None
        self._shapes = [spec.shape for spec in nest.flatten(self._action_spec)]
        self._is_single = isinstance(self._action_spec, BoundedTensorSpec)
        self._make_bounds(None)
        activation = identity if squashing_func is None else squashing_func
        self.heads = nn.ModuleList(
            FC(size, spec.numel, activation, kernel_initializer=small_uniform)
            for spec in nest.flatten(self._action_spec)
        )

    def _make_bounds(self, device: torch.device | None) -> None:
        self._bounds = [Bounds.from_spec(spec, device=device) for spec in nest.flatten(self._action_spec)]

    def _apply(self, fn: Callable[..., Tensor], recurse: bool = True) -> Self:
        result: Self = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._make_bounds(next(self.parameters()).device)
        return result

    @property
    def head_bounds(self) -> Bounds | None:
        """What the output of the first head is stretched onto; None if it is the action."""
        return self._bounds[0] if self._squashes else None

    def _actions(self, x: Tensor) -> Nest:
        actions = []
        for head, shape, bounds in zip(self.heads._modules.values(), self._shapes, self._bounds, strict=True):
            action = head(x)  # type: ignore[misc]
            if len(shape) != 1:
                action = action.reshape(*action.shape[:-1], *shape)
            actions.append(bounds.from_unit(action) if self._squashes else action)
        if self._is_single:
            return actions[0]
        return pack_items(self._action_spec, actions)

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[Nest, Nest]:
        """A nest of actions [..., *action shape] within their bounds."""
        x, state = self.trunk(inputs, state)
        return self._actions(x), state

    def unroll(self, inputs: Nest, state: Nest = (), is_first: Tensor | None = None) -> tuple[Nest, Nest]:
        """Actions of whole sequences; see `Network.unroll`."""
        x, state = self.trunk.unroll(inputs, state, is_first)
        return self._actions(x), state


@configurable
class ActorNetwork(_ActionHeads):
    """A deterministic policy for continuous actions."""

    def __init__(
        self,
        input_tensor_spec: Nest,
        action_spec: Nest,
        input_preprocessors: Nest = None,
        preprocessing_combiner: Callable[[Nest], Tensor] | None = None,
        conv_layer_params: ConvLayerParams = None,
        fc_layer_params: LayerSizes = None,
        activation: Activation = torch.relu_,
        squashing_func: Activation | None = torch.tanh,
        kernel_initializer: Initializer | None = None,
        name: str = "ActorNetwork",
    ) -> None:
        """Builds the layers.

        Args:
            input_tensor_spec: nest of specs of the observation.
            action_spec: nest of bounded continuous specs.
            input_preprocessors: see `InputPreprocessing`.
            preprocessing_combiner: makes one tensor of a nested input; required for one.
            conv_layer_params: see `ImageEncodingNetwork`; for an image.
            fc_layer_params: sizes of the hidden layers.
            activation: of the hidden layers.
            squashing_func: onto [-1, 1], which is then stretched onto the bounds; None: actions are not bounded.
            kernel_initializer: of the hidden layers; None: by variance scaling.
            name: of this network.
        """
        super().__init__(input_tensor_spec, action_spec, name)
        self.trunk = make_trunk(
            input_tensor_spec,
            input_preprocessors,
            preprocessing_combiner,
            conv_layer_params,
            fc_layer_params,
            activation,
            kernel_initializer,
            f"{name}.trunk",
        )
        self._build_heads(squashing_func)


@configurable
class ActorRNNNetwork(_ActionHeads):
    """A deterministic policy with memory for continuous actions."""

    def __init__(
        self,
        input_tensor_spec: Nest,
        action_spec: Nest,
        input_preprocessors: Nest = None,
        preprocessing_combiner: Callable[[Nest], Tensor] | None = None,
        conv_layer_params: ConvLayerParams = None,
        fc_layer_params: LayerSizes = None,
        lstm_hidden_size: int | Sequence[int] = 100,
        actor_fc_layer_params: LayerSizes = None,
        activation: Activation = torch.relu_,
        squashing_func: Activation | None = torch.tanh,
        kernel_initializer: Initializer | None = None,
        name: str = "ActorRNNNetwork",
        cell: CellCtor = LSTMLayer,
    ) -> None:
        """Builds the layers.

        Args:
            input_tensor_spec: nest of specs of the observation.
            action_spec: nest of bounded continuous specs.
            input_preprocessors: see `InputPreprocessing`.
            preprocessing_combiner: makes one tensor of a nested input; required for one.
            conv_layer_params: see `ImageEncodingNetwork`; for an image.
            fc_layer_params: sizes of the layers before the cells.
            lstm_hidden_size: of each cell; an int is one cell.
            actor_fc_layer_params: sizes of the layers after the cells.
            activation: of the hidden layers.
            squashing_func: onto [-1, 1], which is then stretched onto the bounds; None: actions are not bounded.
            kernel_initializer: of the hidden layers; None: by variance scaling.
            name: of this network.
            cell: makes each recurrent layer, called as ``cell(input_size, hidden_size)``: see `CellCtor`.
        """
        super().__init__(input_tensor_spec, action_spec, name)
        self.trunk = make_trunk(
            input_tensor_spec,
            input_preprocessors,
            preprocessing_combiner,
            conv_layer_params,
            fc_layer_params,
            activation,
            kernel_initializer,
            f"{name}.trunk",
            Memory(cell, lstm_hidden_size, actor_fc_layer_params),
        )
        self._build_heads(squashing_func)
