"""Action values Q(s, a) of an observation and an action."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from rein.config import configurable
from rein.nest import Nest
from rein.networks.chains import ConvLayerParams, LayerSizes, vector_size
from rein.networks.encoding_networks import EncodingNetwork
from rein.networks.layers import LSTMLayer, OneHot
from rein.networks.layers.initializers import Activation, Initializer
from rein.networks.network import Network
from rein.networks.parallel import NaiveParallelNetwork
from rein.networks.preprocessing import InputPreprocessing
from rein.networks.recurrent import CellCtor
from rein.networks.spec_encoders import fitting_inputs
from rein.networks.trunks import Memory, make_trunk, value_layer
from rein.specs import BoundedTensorSpec, TensorSpec

Combiner = Callable[[Nest], Tensor] | None


class ObservationActionEncoder(Network):
    """Encodes an observation and an action apart, and combines the two."""

    leading_dims_agnostic = True

    def __init__(
        self,
        input_tensor_spec: tuple[Nest, Nest],
        observation_input_processors: Nest,
        observation_preprocessing_combiner: Combiner,
        observation_conv_layer_params: ConvLayerParams,
        observation_fc_layer_params: LayerSizes,
        action_input_processors: Nest,
        action_preprocessing_combiner: Combiner,
        action_fc_layer_params: LayerSizes,
        observation_action_combiner: Combiner,
        activation: Activation,
        kernel_initializer: Initializer | None,
        use_fc_bn: bool,
        use_fc_ln: bool,
        name: str,
    ) -> None:
        super().__init__(input_tensor_spec, name=name)
        if not isinstance(input_tensor_spec, tuple) or len(input_tensor_spec) != 2:
            raise ValueError(
                f"{name}: input_tensor_spec must be (observation_spec, action_spec), got {input_tensor_spec!r}"
            )
        observation_spec, action_spec = input_tensor_spec
        if action_input_processors is None:
            action_input_processors = _default_action_processor(action_spec)
        self.observation_encoder, observation_out = _encoder(
            observation_spec,
            observation_input_processors,
            observation_preprocessing_combiner,
            observation_conv_layer_params,
            observation_fc_layer_params,
            activation,
            kernel_initializer,
            use_fc_bn,
            use_fc_ln,
            f"{name}.observation",
        )
        self.action_encoder, action_out = _encoder(
            action_spec,
            action_input_processors,
            action_preprocessing_combiner,
            None,
            action_fc_layer_params,
            activation,
            kernel_initializer,
            use_fc_bn,
            use_fc_ln,
            f"{name}.action",
        )
        vector_size(observation_out, f"{name}.observation")
        vector_size(action_out, f"{name}.action")
        self.combine: nn.Module | None = None
        if observation_action_combiner is not None:
            self.combine = InputPreprocessing(
                (observation_out, action_out), preprocessing_combiner=observation_action_combiner
            )

    def forward(self, inputs: tuple[Nest, Nest], state: Nest = ()) -> tuple[Tensor, Nest]:
        """Maps (observation, action) to one vector [..., size]."""
        observation, action = inputs
        if self.observation_encoder is not None:
            observation = self.observation_encoder(observation)[0]
        if self.action_encoder is not None:
            action = self.action_encoder(action)[0]
        if self.combine is not None:
            return self.combine((observation, action)), state
        return torch.cat((observation, action), -1), state


def _default_action_processor(action_spec: Nest) -> nn.Module | None:
    """One-hot codes for a single discrete action; other discrete actions need a processor."""
    if isinstance(action_spec, BoundedTensorSpec) and action_spec.is_discrete:
        is_plain = action_spec.ndim == 0 and int(action_spec.minimum) == 0
        return OneHot(action_spec.num_values) if is_plain else None
    return None


def _encoder(
    spec: Nest,
    preprocessors: Nest,
    combiner: Combiner,
    conv_layer_params: ConvLayerParams,
    fc_layer_params: LayerSizes,
    activation: Activation,
    kernel_initializer: Initializer | None,
    use_fc_bn: bool,
    use_fc_ln: bool,
    name: str,
) -> tuple[EncodingNetwork | None, TensorSpec]:
    """An encoder and the spec of its output; None if there is nothing to do."""
    preprocessors, combiner = fitting_inputs(spec, preprocessors, combiner, conv_layer_params)
    has_layers = conv_layer_params or fc_layer_params
    if isinstance(spec, TensorSpec) and preprocessors is combiner is None and not has_layers:
        return None, spec
    encoder = EncodingNetwork(
        spec,
        input_preprocessors=preprocessors,
        preprocessing_combiner=combiner,
        conv_layer_params=conv_layer_params,
        fc_layer_params=fc_layer_params,
        activation=activation,
        kernel_initializer=kernel_initializer,
        use_fc_bn=use_fc_bn,
        use_fc_ln=use_fc_ln,
        name=name,
    )
    return encoder, encoder.output_spec


class _Critic(Network):
    """An encoder of the pair, then a network to the value."""

    leading_dims_agnostic = True

    encoder: Network
    joint: Network
    _squeezes: bool
    _use_naive_parallel_network: bool

    def forward(self, inputs: tuple[Nest, Nest], state: Nest = ()) -> tuple[Tensor, Nest]:
        """Maps (observation, action) to values [..., *output shape]."""
        x, _ = self.encoder(inputs)
        value, state = self.joint(x, state)
        return (value.squeeze(-1) if self._squeezes else value), state

    def unroll(self, inputs: Nest, state: Nest = (), is_first: Tensor | None = None) -> tuple[Nest, Nest]:
        """Values of whole sequences; see `Network.unroll`."""
        x, _ = self.encoder.unroll(inputs)
        value, state = self.joint.unroll(x, state, is_first)
        return (value.squeeze(-1) if self._squeezes else value), state

    def make_parallel(self, n: int) -> Network:
        """`n` independent critics; see `Network.make_parallel`."""
        if self._use_naive_parallel_network:
            return NaiveParallelNetwork([self.copy() for _ in range(n)])
        return super().make_parallel(n)


@configurable
class CriticNetwork(_Critic):
    """Q(s, a), from (observation, action) to a value."""

    def __init__(
        self,
        input_tensor_spec: tuple[Nest, Nest],
        output_tensor_spec: TensorSpec = TensorSpec(()),
        observation_input_processors: Nest = None,
        observation_preprocessing_combiner: Combiner = None,
        observation_conv_layer_params: ConvLayerParams = None,
        observation_fc_layer_params: LayerSizes = None,
        action_input_processors: Nest = None,
        action_preprocessing_combiner: Combiner = None,
        action_fc_layer_params: LayerSizes = None,
        observation_action_combiner: Combiner = None,
        joint_fc_layer_params: LayerSizes = None,
        activation: Activation = torch.relu_,
        kernel_initializer: Initializer | None = None,
        use_fc_bn: bool = False,
        use_fc_ln: bool = False,
        use_naive_parallel_network: bool = False,
        name: str = "CriticNetwork",
    ) -> None:
        """Builds the layers.

        Args:
            input_tensor_spec: (observation_spec, action_spec), each a nest. A single discrete action is given to the
                network as a one-hot code unless `action_input_processors` says otherwise.
            output_tensor_spec: of the value: scalar, or a vector for several rewards or quantiles.
            observation_input_processors: see `InputPreprocessing`.
            observation_preprocessing_combiner: makes one tensor of a nested observation.
            observation_conv_layer_params: see `ImageEncodingNetwork`; for an image.
            observation_fc_layer_params: sizes of the layers of the observation alone.
            action_input_processors: see `InputPreprocessing`.
            action_preprocessing_combiner: makes one tensor of a nested action.
            action_fc_layer_params: sizes of the layers of the action alone.
            observation_action_combiner: makes one vector of both; None: concatenation.
            joint_fc_layer_params: sizes of the layers of both together.
            activation: of the hidden layers.
            kernel_initializer: of the hidden layers; None: by variance scaling.
            use_fc_bn: batch normalization in the hidden layers.
            use_fc_ln: layer normalization in the hidden layers.
            use_naive_parallel_network: make replicas evaluate one after another.
            name: of this network.
        """
        super().__init__(input_tensor_spec, name=name)
        self.encoder = ObservationActionEncoder(
            input_tensor_spec,
            observation_input_processors,
            observation_preprocessing_combiner,
            observation_conv_layer_params,
            observation_fc_layer_params,
            action_input_processors,
            action_preprocessing_combiner,
            action_fc_layer_params,
            observation_action_combiner,
            activation,
            kernel_initializer,
            use_fc_bn,
            use_fc_ln,
            f"{name}.encoder",
        )
        self.joint = make_trunk(
            self.encoder.output_spec,
            None,
            None,
            None,
            joint_fc_layer_params,
            activation,
            kernel_initializer,
            f"{name}.joint",
            use_fc_bn=use_fc_bn,
            use_fc_ln=use_fc_ln,
            **value_layer(output_tensor_spec),
        )
        self._squeezes = output_tensor_spec.ndim == 0
        self._use_naive_parallel_network = use_naive_parallel_network


@configurable
class CriticRNNNetwork(_Critic):
    """Q(s, a) with memory, from (observation, action) to a value."""

    def __init__(
        self,
        input_tensor_spec: tuple[Nest, Nest],
        output_tensor_spec: TensorSpec = TensorSpec(()),
        observation_input_processors: Nest = None,
        observation_preprocessing_combiner: Combiner = None,
        observation_conv_layer_params: ConvLayerParams = None,
        observation_fc_layer_params: LayerSizes = None,
        action_input_processors: Nest = None,
        action_preprocessing_combiner: Combiner = None,
        action_fc_layer_params: LayerSizes = None,
        observation_action_combiner: Combiner = None,
        joint_fc_layer_params: LayerSizes = None,
        lstm_hidden_size: int | Sequence[int] = 100,
        critic_fc_layer_params: LayerSizes = None,
        activation: Activation = torch.relu_,
        kernel_initializer: Initializer | None = None,
        use_naive_parallel_network: bool = False,
        name: str = "CriticRNNNetwork",
        cell: CellCtor = LSTMLayer,
    ) -> None:
        """Builds the layers.

        Args:
            input_tensor_spec: (observation_spec, action_spec); see `CriticNetwork`, also for the parameters not listed.
            output_tensor_spec: of the value: scalar, or a vector for several rewards or quantiles.
            observation_input_processors: see `InputPreprocessing`.
            observation_preprocessing_combiner: makes one tensor of a nested observation.
            observation_conv_layer_params: see `ImageEncodingNetwork`; for an image.
            observation_fc_layer_params: sizes of the layers of the observation alone.
            action_input_processors: see `InputPreprocessing`.
            action_preprocessing_combiner: makes one tensor of a nested action.
            action_fc_layer_params: sizes of the layers of the action alone.
            observation_action_combiner: makes one vector of both; None: concatenation.
            joint_fc_layer_params: sizes of the layers of both together, before the cells.
            lstm_hidden_size: of each cell; an int is one cell.
            critic_fc_layer_params: sizes of the layers after the cells.
            activation: of the hidden layers.
            kernel_initializer: of the hidden layers; None: by variance scaling.
            use_naive_parallel_network: make replicas evaluate one after another.
            name: of this network.
            cell: makes each recurrent layer, called as ``cell(input_size, hidden_size)``: see `CellCtor`.
        """
        super().__init__(input_tensor_spec, name=name)
        self.encoder = ObservationActionEncoder(
            input_tensor_spec,
            observation_input_processors,
            observation_preprocessing_combiner,
            observation_conv_layer_params,
            observation_fc_layer_params,
            action_input_processors,
            action_preprocessing_combiner,
            action_fc_layer_params,
            observation_action_combiner,
            activation,
            kernel_initializer,
            False,
            False,
            f"{name}.encoder",
        )
        self.joint = make_trunk(
            self.encoder.output_spec,
            None,
            None,
            None,
            joint_fc_layer_params,
            activation,
            kernel_initializer,
            f"{name}.joint",
            Memory(cell, lstm_hidden_size, critic_fc_layer_params),
            **value_layer(output_tensor_spec),
        )
        self._squeezes = output_tensor_spec.ndim == 0
        self._use_naive_parallel_network = use_naive_parallel_network
