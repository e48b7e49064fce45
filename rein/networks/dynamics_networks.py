"""Models of how a feature changes under an action."""

import torch
from torch import Tensor

from rein.config import configurable
from rein.distributions import Distribution
from rein.nest import Nest
from rein.networks.chains import ConvLayerParams, LayerSizes, small_uniform
from rein.networks.critic_networks import Combiner, ObservationActionEncoder
from rein.networks.encoding_networks import EncodingNetwork
from rein.networks.layers import identity
from rein.networks.layers.initializers import Activation, Initializer
from rein.networks.network import Network
from rein.networks.projection_networks import NormalProjectionNetwork, ProjectionCtor
from rein.specs import TensorSpec


@configurable
class DynamicsNetwork(Network):
    """From (feature, action) to a prediction of the next feature or of its change."""

    leading_dims_agnostic = True

    def __init__(
        self,
        input_tensor_spec: tuple[Nest, Nest],
        output_tensor_spec: TensorSpec,
        observation_input_processors: Nest = None,
        observation_preprocessing_combiner: Combiner = None,
        observation_conv_layer_params: ConvLayerParams = None,
        observation_fc_layer_params: LayerSizes = None,
        action_input_processors: Nest = None,
        action_preprocessing_combiner: Combiner = None,
        action_fc_layer_params: LayerSizes = None,
        joint_fc_layer_params: LayerSizes = None,
        prob: bool = False,
        continuous_projection_net_ctor: ProjectionCtor = NormalProjectionNetwork,
        activation: Activation = torch.relu_,
        kernel_initializer: Initializer | None = None,
        name: str = "DynamicsNetwork",
    ) -> None:
        """Builds the layers.

        Args:
            input_tensor_spec: (feature_spec, action_spec), each a nest; a single discrete action is given to the
                network as a one-hot code.
            output_tensor_spec: of the prediction.
            observation_input_processors: see `InputPreprocessing`.
            observation_preprocessing_combiner: makes one tensor of a nested feature.
            observation_conv_layer_params: see `ImageEncodingNetwork`; for an image.
            observation_fc_layer_params: sizes of the layers of the feature alone.
            action_input_processors: see `InputPreprocessing`.
            action_preprocessing_combiner: makes one tensor of a nested action.
            action_fc_layer_params: sizes of the layers of the action alone.
            joint_fc_layer_params: sizes of the layers of both together.
            prob: predict a distribution in place of a point.
            continuous_projection_net_ctor: called as ``ctor(input_size, action_spec=output_tensor_spec,
                squash_mean=False, state_dependent_std=True)`` for the distribution.
            activation: of the hidden layers.
            kernel_initializer: of the hidden layers; None: by variance scaling.
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
            None,
            activation,
            kernel_initializer,
            False,
            False,
            f"{name}.encoder",
        )
        self.joint = EncodingNetwork(
            self.encoder.output_spec,
            output_tensor_spec=None if prob else output_tensor_spec,
            fc_layer_params=joint_fc_layer_params,
            activation=activation,
            kernel_initializer=kernel_initializer,
            last_layer_size=None if prob else output_tensor_spec.numel,
            last_activation=None if prob else identity,
            last_kernel_initializer=small_uniform,
            name=f"{name}.joint",
        )
        self.projection: Network | None = None
        if prob:
            size = int(self.joint.output_spec.shape[0])
            self.projection = continuous_projection_net_ctor(
                size, action_spec=output_tensor_spec, squash_mean=False, state_dependent_std=True
            )

    def forward(self, inputs: tuple[Nest, Nest], state: Nest = ()) -> tuple[Tensor | Distribution, Nest]:
        """Maps (feature, action) to a prediction [..., *output shape]."""
        x, _ = self.joint(self.encoder(inputs)[0])
        return (x if self.projection is None else self.projection(x)[0]), state
