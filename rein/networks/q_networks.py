"""Action values of all discrete actions at once."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from rein.config import configurable
from rein.nest import Nest
from rein.networks.action_masks import forbid, mask_path
from rein.networks.chains import Chain, ConvLayerParams, LayerSizes, fc_chain, vector_size
from rein.networks.item_paths import get_item
from rein.networks.layers import FC, Layer, LSTMLayer, NoisyFC
from rein.networks.layers.initializers import Activation, Initializer
from rein.networks.network import Network
from rein.networks.parallel import NaiveParallelNetwork
from rein.networks.recurrent import CellCtor
from rein.networks.trunks import Memory, make_trunk
from rein.specs import BoundedTensorSpec, TensorSpec

_INIT_GAIN = 0.1


class QHead(Layer):
    """From features to the value of each action, [..., size] to [..., num_actions(, num_quantiles)].

    With `dueling`, Q(s, a) = V(s) + A(s, a) - mean A(s, .): Wang et al. (2016).
    """

    def __init__(
        self,
        size: int,
        num_actions: int,
        num_quantiles: int | None,
        dueling: bool,
        hidden: LayerSizes,
        activation: Activation,
        noisy: bool,
    ) -> None:
        super().__init__()
        self._shape = (num_actions, num_quantiles or 1)
        self.has_quantiles = num_quantiles is not None
        self.advantage = _stream(size, hidden, self._shape[0] * self._shape[1], activation, noisy)
        self.value: nn.Module | None = None
        if dueling:
            self.value = _stream(size, hidden, self._shape[1], activation, noisy)

    def forward(self, x: Tensor) -> Tensor:
        """Maps [..., size] to [..., num_actions] or [..., num_actions, num_quantiles]."""
        q = self.advantage(x)
        if self.has_quantiles:
            q = q.reshape(*q.shape[:-1], *self._shape)
        if self.value is not None:
            dim = -2 if self.has_quantiles else -1
            value = self.value(x)
            value = value.unsqueeze(-2) if self.has_quantiles else value
            q = value + q - q.mean(dim, keepdim=True)
        return q


def _stream(size: int, hidden: LayerSizes, outputs: int, activation: Activation, noisy: bool) -> nn.Module:
    chain = fc_chain(size, hidden, activation, noisy=noisy)
    size = hidden[-1] if hidden else size
    last = NoisyFC(size, outputs) if noisy else FC(size, outputs, kernel_init_gain=_INIT_GAIN)
    return Chain([*chain._modules.values(), last])  # type: ignore[list-item]


def _check_action(action_spec: TensorSpec, name: str) -> int:
    if not isinstance(action_spec, BoundedTensorSpec) or not action_spec.is_discrete or action_spec.ndim != 0:
        raise ValueError(f"{name}: needs one discrete scalar action with bounds, got {action_spec}")
    if int(action_spec.minimum) != 0:
        raise ValueError(f"{name}: discrete actions start at 0, got {action_spec}")
    return action_spec.num_values


class _QBase(Network):
    """A trunk and a head of action values."""

    leading_dims_agnostic = True

    trunk: Network
    _use_naive_parallel_network: bool

    def _build_head(
        self,
        action_spec: TensorSpec,
        num_quantiles: int | None,
        dueling: bool,
        hidden: LayerSizes,
        activation: Activation,
        noisy: bool,
    ) -> None:
        if num_quantiles is not None and num_quantiles < 1:
            raise ValueError(f"{self.name}: num_quantiles must be at least 1, got {num_quantiles}")
        size = vector_size(self.trunk.output_spec, self.name)
        num_actions = _check_action(action_spec, self.name)
        self._mask_path = mask_path(self.input_tensor_spec, action_spec)
        self.head = QHead(size, num_actions, num_quantiles, dueling, hidden, activation, noisy)

    def forward(self, inputs: Nest, state: Nest = ()) -> tuple[Tensor, Nest]:
        """Maps an observation to values [..., num_actions(, num_quantiles)]."""
        x, state = self.trunk(inputs, state)
        return self._values(x, inputs), state

    def unroll(self, inputs: Nest, state: Nest = (), is_first: Tensor | None = None) -> tuple[Nest, Nest]:
        """Values of whole sequences; see `Network.unroll`."""
        x, state = self.trunk.unroll(inputs, state, is_first)
        return self._values(x, inputs), state

    def _values(self, x: Tensor, inputs: Nest) -> Tensor:
        values: Tensor = self.head(x)
        if self._mask_path is None:
            return values
        return forbid(values, get_item(inputs, self._mask_path), -2 if self.head.has_quantiles else -1)

    def make_parallel(self, n: int) -> Network:
        """`n` independent networks; see `Network.make_parallel`."""
        if self._use_naive_parallel_network:
            return NaiveParallelNetwork([self.copy() for _ in range(n)])
        return super().make_parallel(n)


@configurable
class QNetwork(_QBase):
    """Q(s, .), from an observation to the value of each discrete action."""

    def __init__(
        self,
        input_tensor_spec: Nest,
        action_spec: BoundedTensorSpec,
        input_preprocessors: Nest = None,
        preprocessing_combiner: Callable[[Nest], Tensor] | None = None,
        conv_layer_params: ConvLayerParams = None,
        fc_layer_params: LayerSizes = None,
        activation: Activation = torch.relu_,
        kernel_initializer: Initializer | None = None,
        use_naive_parallel_network: bool = False,
        num_quantiles: int | None = None,
        dueling: bool = False,
        dueling_fc_layer_params: LayerSizes = None,
        noisy: bool = False,
        name: str = "QNetwork",
    ) -> None:
        """Builds the layers.

        Args:
            input_tensor_spec: nest of specs of the observation.
            action_spec: one discrete scalar action.
            input_preprocessors: see `InputPreprocessing`.
            preprocessing_combiner: makes one tensor of a nested input; required for one.
            conv_layer_params: see `ImageEncodingNetwork`; for an image.
            fc_layer_params: sizes of the hidden layers.
            activation: of the hidden layers.
            kernel_initializer: of the hidden layers; None: by variance scaling.
            use_naive_parallel_network: make replicas evaluate one after another.
            num_quantiles: quantiles of the return for each action; None: its mean, without that dimension.
            dueling: separate streams for the value of the state and the advantages of the actions.
            dueling_fc_layer_params: sizes of the hidden layers of each stream.
            noisy: `NoisyFC` in place of all fully connected layers, for exploration.
            name: of this network.
        """
        super().__init__(input_tensor_spec, name=name)
        self.trunk = make_trunk(
            input_tensor_spec,
            input_preprocessors,
            preprocessing_combiner,
            conv_layer_params,
            None if noisy else fc_layer_params,
            activation,
            kernel_initializer,
            f"{name}.trunk",
        )
        self._use_naive_parallel_network = use_naive_parallel_network
        hidden = [*(fc_layer_params or ())] if noisy else []
        hidden += dueling_fc_layer_params or ()
        self._build_head(action_spec, num_quantiles, dueling, hidden, activation, noisy)


@configurable
class QRNNNetwork(_QBase):
    """Q(s, .) with memory, from an observation to the value of each discrete action."""

    def __init__(
        self,
        input_tensor_spec: Nest,
        action_spec: BoundedTensorSpec,
        input_preprocessors: Nest = None,
        preprocessing_combiner: Callable[[Nest], Tensor] | None = None,
        conv_layer_params: ConvLayerParams = None,
        fc_layer_params: LayerSizes = None,
        lstm_hidden_size: int | Sequence[int] = 100,
        value_fc_layer_params: LayerSizes = None,
        activation: Activation = torch.relu_,
        kernel_initializer: Initializer | None = None,
        use_naive_parallel_network: bool = False,
        num_quantiles: int | None = None,
        dueling: bool = False,
        name: str = "QRNNNetwork",
        cell: CellCtor = LSTMLayer,
    ) -> None:
        """Builds the layers.

        Args:
            input_tensor_spec: nest of specs of the observation.
            action_spec: one discrete scalar action.
            input_preprocessors: see `InputPreprocessing`.
            preprocessing_combiner: makes one tensor of a nested input; required for one.
            conv_layer_params: see `ImageEncodingNetwork`; for an image.
            fc_layer_params: sizes of the layers before the cells.
            lstm_hidden_size: of each cell; an int is one cell.
            value_fc_layer_params: sizes of the layers after the cells.
            activation: of the hidden layers.
            kernel_initializer: of the hidden layers; None: by variance scaling.
            use_naive_parallel_network: make replicas evaluate one after another.
            num_quantiles: quantiles of the return for each action; None: its mean, without that dimension.
            dueling: separate streams for the value of the state and the advantages of the actions.
            name: of this network.
            cell: makes each recurrent layer, called as ``cell(input_size, hidden_size)``: see `CellCtor`.
        """
        super().__init__(input_tensor_spec, name=name)
        self.trunk = make_trunk(
            input_tensor_spec,
            input_preprocessors,
            preprocessing_combiner,
            conv_layer_params,
            fc_layer_params,
            activation,
            kernel_initializer,
            f"{name}.trunk",
            Memory(cell, lstm_hidden_size, value_fc_layer_params),
        )
        self._use_naive_parallel_network = use_naive_parallel_network
        self._build_head(action_spec, num_quantiles, dueling, None, activation, noisy=False)
