"""Encoders and decoders of MERLIN for the usual kinds of observations; give your own for others."""

from collections.abc import Sequence

from rein.algorithms.representation import DecodingAlgorithm
from rein.config import configurable
from rein.framework import Algorithm
from rein.networks import (
    EmbeddingPreprocessor,
    EncodingNetwork,
    Network,
    ResnetDecodingNetwork,
    ResnetEncodingNetwork,
)
from rein.networks.layers import identity
from rein.specs import TensorSpec


@configurable
def merlin_encoder(spec: TensorSpec, hidden_layers: Sequence[int] = (64,), size: int = 64) -> Network:
    """A network from one leaf of an observation to a vector.

    Args:
        spec: of a vector, an image [C, H, W] of floats, or a bounded whole number.
        hidden_layers: for vectors, sizes of the layers before the last.
        size: of the output.
    """
    if spec.is_discrete and spec.ndim == 0:
        return EmbeddingPreprocessor(spec, size)
    if spec.ndim == 3:
        return ResnetEncodingNetwork(spec, size)
    if spec.ndim > 1:
        raise ValueError(f"the observation has a part {spec}: only vectors, images and whole numbers are encoded")
    return EncodingNetwork(spec, fc_layer_params=tuple(hidden_layers), last_layer_size=size, last_activation=identity)


@configurable
def merlin_decoder(
    code_spec: TensorSpec, spec: TensorSpec, hidden_layers: Sequence[int] = (64,), loss_weight: float = 1.0
) -> Algorithm:
    """A decoder of one leaf of an observation, which learns by the squared error.

    Args:
        code_spec: of the code.
        spec: of a vector, or an image [C, H, W] of floats in [0, 1] with sides that are multiples of 8.
        hidden_layers: for vectors, sizes of the layers before the last.
        loss_weight: factor of the error, summed over the numbers of the leaf.
    """
    if not spec.is_continuous:
        raise ValueError(f"the observation has a part {spec}: only floats are decoded; give a decoder of your own")
    if spec.ndim == 3:
        network: Network = ResnetDecodingNetwork(code_spec, TensorSpec(spec.shape))
    else:
        network = EncodingNetwork(
            code_spec,
            output_tensor_spec=TensorSpec(spec.shape),
            fc_layer_params=tuple(hidden_layers),
            last_layer_size=spec.numel,
            last_activation=identity,
        )
    return DecodingAlgorithm(network, loss_weight=loss_weight * spec.numel)
