"""Layers: modules on the last dimensions of a tensor, with versions for many replicas at once."""

from rein.networks.layers.attention import MultiHeadAttention, TransformerBlock
from rein.networks.layers.causal_conv import CausalConv1D
from rein.networks.layers.combiners import NestCombiner, NestConcat, NestMultiply, NestOuterProduct, NestSum
from rein.networks.layers.compositional import CompositionalFC
from rein.networks.layers.conv import (
    Conv2D,
    ConvTranspose2D,
    ParallelConv2D,
    ParallelConvTranspose2D,
)
from rein.networks.layers.embedding import Embedding, OneHot, ParallelEmbedding
from rein.networks.layers.fc import FC, ParallelFC
from rein.networks.layers.initializers import activation_gain, identity, torch_linear_init, variance_scaling_init
from rein.networks.layers.layer import (
    Layer,
    NotStackableError,
    ParallelLayer,
    reinitialized_copy,
    stack_layers,
)
from rein.networks.layers.noisy import NoisyFC, ParallelNoisyFC
from rein.networks.layers.normalization import (
    BatchNorm,
    ChannelNorm,
    LayerNorm,
    ParallelBatchNorm,
    ParallelLayerNorm,
)
from rein.networks.layers.parameter import LearnedTensor, ParallelLearnedTensor
from rein.networks.layers.recurrent import GRULayer, LSTMLayer, RecurrentCell
from rein.networks.layers.residual import BottleneckBlock, ResidualFC, ResidueBlock
from rein.networks.layers.shaping import (
    Cast,
    Detach,
    Flatten,
    Identity,
    Lambda,
    Mean,
    Permute,
    Reshape,
    Scale,
    ScaleGradient,
    Sum,
    Transpose,
)

__all__ = [
    "FC",
    "BatchNorm",
    "BottleneckBlock",
    "Cast",
    "CausalConv1D",
    "ChannelNorm",
    "CompositionalFC",
    "Conv2D",
    "ConvTranspose2D",
    "Detach",
    "Embedding",
    "Flatten",
    "GRULayer",
    "Identity",
    "LSTMLayer",
    "Lambda",
    "Layer",
    "LayerNorm",
    "LearnedTensor",
    "Mean",
    "MultiHeadAttention",
    "NestCombiner",
    "NestConcat",
    "NestMultiply",
    "NestOuterProduct",
    "NestSum",
    "NoisyFC",
    "NotStackableError",
    "OneHot",
    "ParallelBatchNorm",
    "ParallelConv2D",
    "ParallelConvTranspose2D",
    "ParallelEmbedding",
    "ParallelFC",
    "ParallelLayer",
    "ParallelLayerNorm",
    "ParallelLearnedTensor",
    "ParallelNoisyFC",
    "Permute",
    "RecurrentCell",
    "Reshape",
    "ResidualFC",
    "ResidueBlock",
    "Scale",
    "ScaleGradient",
    "Sum",
    "TransformerBlock",
    "Transpose",
    "activation_gain",
    "identity",
    "reinitialized_copy",
    "stack_layers",
    "torch_linear_init",
    "variance_scaling_init",
]
