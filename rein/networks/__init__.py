"""Networks: one call ``output, state = network(input, state)`` for all of them.

>>> import torch
>>> from rein.networks import EncodingNetwork
>>> from rein.specs import TensorSpec
>>> network = EncodingNetwork(TensorSpec((3,)), fc_layer_params=(16, 8))
>>> network.output_spec
TensorSpec(shape=(8,), dtype=torch.float32)
>>> twins = network.make_parallel(2)
>>> twins(torch.zeros(5, 3))[0].shape
torch.Size([5, 2, 8])
"""

from rein.networks.action_encoder import ActionEncoder
from rein.networks.action_masks import MASK_KEY, has_mask, is_forbidden
from rein.networks.actor_distribution_networks import (
    ActorDistributionNetwork,
    ActorDistributionRNNNetwork,
    UnitNormalActorDistributionNetwork,
)
from rein.networks.actor_networks import ActorNetwork, ActorRNNNetwork
from rein.networks.containers import Branch, Echo, Parallel, Sequential
from rein.networks.critic_networks import CriticNetwork, CriticRNNNetwork
from rein.networks.dynamics_networks import DynamicsNetwork
from rein.networks.embedding_preprocessor import EmbeddingPreprocessor
from rein.networks.encoding_networks import (
    EncodingNetwork,
    GRUEncodingNetwork,
    LSTMEncodingNetwork,
    RecurrentEncodingNetwork,
)
from rein.networks.host_policy import HostActor, HostGreedyPolicy, HostPolicy, HostSoftPolicy
from rein.networks.image_networks import (
    ImageDecodingNetwork,
    ImageEncodingNetwork,
    ResnetDecodingNetwork,
    ResnetEncodingNetwork,
    SpatialBroadcastDecodingNetwork,
)
from rein.networks.latent_actors import FlowedNormal, LatentActorDistributionNetwork
from rein.networks.layers import Detach, NestConcat, NestMultiply, NestOuterProduct, NestSum
from rein.networks.mdq_critic_networks import ActionQuantizer, MdqCriticNetwork
from rein.networks.memory import MemoryReader, MemoryState, MemoryWithUsage
from rein.networks.network import Network
from rein.networks.parallel import NaiveParallelNetwork, ParallelNetwork, VmapParallelNetwork
from rein.networks.param_networks import ParamNetwork
from rein.networks.preprocessing import InputPreprocessing
from rein.networks.projection_networks import (
    BetaProjectionNetwork,
    CategoricalProjectionNetwork,
    MixtureProjectionNetwork,
    NormalProjectionNetwork,
    OnehotCategoricalProjectionNetwork,
    StableNormalProjectionNetwork,
    TruncatedProjectionNetwork,
)
from rein.networks.q_networks import QNetwork, QRNNNetwork
from rein.networks.real_nvp import RealNVPNetwork
from rein.networks.recurrent import AMPWrapper, Delay, GRUCell, LSTMCell, ResidualCell
from rein.networks.relu_mlp import ReluMLP
from rein.networks.spec_encoders import encoder_for, encoding_choices
from rein.networks.state import reset_state, reset_state_at_first, zero_state
from rein.networks.transformer_networks import TransformerCell, TransformerNetwork, TransformerState
from rein.networks.unet import MoNetUNet
from rein.networks.value_networks import ValueNetwork, ValueRNNNetwork
from rein.networks.wrapped import NetworkWrapper

__all__ = [
    "MASK_KEY",
    "AMPWrapper",
    "ActionEncoder",
    "ActionQuantizer",
    "ActorDistributionNetwork",
    "ActorDistributionRNNNetwork",
    "ActorNetwork",
    "ActorRNNNetwork",
    "BetaProjectionNetwork",
    "Branch",
    "CategoricalProjectionNetwork",
    "CriticNetwork",
    "CriticRNNNetwork",
    "Delay",
    "Detach",
    "DynamicsNetwork",
    "Echo",
    "EmbeddingPreprocessor",
    "EncodingNetwork",
    "FlowedNormal",
    "GRUCell",
    "GRUEncodingNetwork",
    "HostActor",
    "HostGreedyPolicy",
    "HostPolicy",
    "HostSoftPolicy",
    "ImageDecodingNetwork",
    "ImageEncodingNetwork",
    "InputPreprocessing",
    "LSTMCell",
    "LSTMEncodingNetwork",
    "LatentActorDistributionNetwork",
    "MdqCriticNetwork",
    "MemoryReader",
    "MemoryState",
    "MemoryWithUsage",
    "MixtureProjectionNetwork",
    "MoNetUNet",
    "NaiveParallelNetwork",
    "NestConcat",
    "NestMultiply",
    "NestOuterProduct",
    "NestSum",
    "Network",
    "NetworkWrapper",
    "NormalProjectionNetwork",
    "OnehotCategoricalProjectionNetwork",
    "Parallel",
    "ParallelNetwork",
    "ParamNetwork",
    "QNetwork",
    "QRNNNetwork",
    "RealNVPNetwork",
    "RecurrentEncodingNetwork",
    "ReluMLP",
    "ResidualCell",
    "ResnetDecodingNetwork",
    "ResnetEncodingNetwork",
    "Sequential",
    "SpatialBroadcastDecodingNetwork",
    "StableNormalProjectionNetwork",
    "TransformerCell",
    "TransformerNetwork",
    "TransformerState",
    "TruncatedProjectionNetwork",
    "UnitNormalActorDistributionNetwork",
    "ValueNetwork",
    "ValueRNNNetwork",
    "VmapParallelNetwork",
    "encoder_for",
    "encoding_choices",
    "has_mask",
    "is_forbidden",
    "reset_state",
    "reset_state_at_first",
    "zero_state",
]
