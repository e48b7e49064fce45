"""Representation learners that can be named and that learn by reconstruction; see `built_in_parts`."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from rein.agents.part_networks import make_encoder
from rein.algorithms.representation import (
    AutoEncoder,
    DiscreteVAE,
    MoNetAlgorithm,
    ReconstructionLearner,
    VariationalAutoEncoder,
    Vqvae,
)
from rein.config import configurable
from rein.framework import Algorithm
from rein.nest import Nest
from rein.networks import (
    EncodingNetwork,
    ImageDecodingNetwork,
    MoNetUNet,
    Network,
    Sequential,
    SpatialBroadcastDecodingNetwork,
)
from rein.networks.layers import Flatten, Reshape, identity
from rein.optimizers import Adam
from rein.specs import BoundedTensorSpec, TensorSpec

Arguments = dict[str, Any]


@configurable
def vae(
    z_dim: int = 16,
    hidden_layers: Sequence[int] = (64,),
    noise: float = 0.1,
    learning_rate: float = 1e-3,
    is_trained_by_others: bool = False,
) -> Arguments:
    """The code of a variational auto-encoder of the observation.

    Args:
        z_dim: numbers of the code.
        hidden_layers: sizes of the layers of the encoder; the decoder has them in the other order.
        noise: deviation of observations from what is decoded that counts as noise; less keeps more of the observation.
        learning_rate: of everything in it.
        is_trained_by_others: whether the losses of those who use the code train the encoder too.
    """
    codec = partial(vae_codec, z_dim=z_dim, hidden_layers=_checked(hidden_layers), noise=noise)
    return _learner(codec, learning_rate, is_trained_by_others)


@configurable
def discrete_vae(
    num_variables: int = 16,
    num_categories: int = 8,
    hidden_layers: Sequence[int] = (64,),
    noise: float = 0.1,
    learning_rate: float = 1e-3,
    is_trained_by_others: bool = False,
) -> Arguments:
    """The code of a variational auto-encoder with categorical variables.

    Args:
        num_variables: of the code.
        num_categories: of each variable.
        hidden_layers: sizes of the layers of the encoder; the decoder has them in the other order.
        noise: deviation of observations from what is decoded that counts as noise; less keeps more of the observation.
        learning_rate: of everything in it.
        is_trained_by_others: whether the losses of those who use the code train the encoder too.
    """
    codec = partial(
        discrete_vae_codec,
        num_variables=num_variables,
        num_categories=num_categories,
        hidden_layers=_checked(hidden_layers),
        noise=noise,
    )
    return _learner(codec, learning_rate, is_trained_by_others)


@configurable
def vq_vae(
    num_codes: int = 64,
    num_variables: int = 8,
    code_size: int = 8,
    hidden_layers: Sequence[int] = (64,),
    commitment_loss_weight: float = 0.25,
    learning_rate: float = 1e-3,
    is_trained_by_others: bool = False,
) -> Arguments:
    """The nearest vectors of a codebook to an encoding of the observation (VQ-VAE).

    Args:
        num_codes: in the codebook.
        num_variables: codes that describe an observation.
        code_size: numbers of each code.
        hidden_layers: sizes of the layers of the encoder; the decoder has them in the other order.
        commitment_loss_weight: of the loss that keeps encodings near codes.
        learning_rate: of everything in it.
        is_trained_by_others: whether the losses of those who use the code train the encoder too.
    """
    codec = partial(
        vq_vae_codec,
        num_codes=num_codes,
        num_variables=num_variables,
        code_size=code_size,
        hidden_layers=_checked(hidden_layers),
        commitment_loss_weight=commitment_loss_weight,
    )
    return _learner(codec, learning_rate, is_trained_by_others)


@configurable
def monet(
    n_slots: int = 4,
    slot_size: int = 8,
    filters: Sequence[int] = (16, 16, 16),
    hidden_layers: Sequence[int] = (64,),
    gamma: float = 0.5,
    beta: float = 0.0,
    noise: float = 0.7,
    decoder_filters: Sequence[int] = (16, 16),
    recurrent_attention: bool = True,
    learning_rate: float = 1e-3,
    is_trained_by_others: bool = False,
    pixel_embedding_size: int | None = None,
) -> Arguments:
    """The codes of the objects in an image (MoNet).

    Args:
        n_slots: objects at most; the background is one.
        slot_size: numbers of the code of an object.
        filters: channels of attention; each but the first halves the image.
        hidden_layers: sizes of the layers between the smallest images, and of those of the encoder.
        gamma: weight of the reconstruction of masks.
        beta: weight of the KL of the codes.
        noise: deviation of pixels from what is decoded that counts as noise.
        decoder_filters: channels of the layers of the decoder before the last. Without any, a slot shows one colour, which
            may change from side to side: what it cannot draw, attention has to find.
        recurrent_attention: take the slots one after the other; slower.
        learning_rate: of everything in it.
        is_trained_by_others: whether the losses of those who use the codes train the encoder too.
        pixel_embedding_size: if given, pixels whose embeddings of this size are close make a slot, beginning with seeds;
            instead of `recurrent_attention`.
    """
    codec = partial(
        monet_codec,
        n_slots=n_slots,
        slot_size=slot_size,
        filters=filters,
        hidden_layers=_checked(hidden_layers),
        gamma=gamma,
        beta=beta,
        noise=noise,
        decoder_filters=decoder_filters,
        recurrent_attention=recurrent_attention,
        pixel_embedding_size=pixel_embedding_size,
    )
    return _learner(codec, learning_rate, is_trained_by_others)


# The same for data without an agent, see `CodecTraining`; the parameters are those of the parts.


@configurable
def vae_codec(
    spec: TensorSpec, z_dim: int = 16, hidden_layers: Sequence[int] = (64,), noise: float = 0.1
) -> AutoEncoder:
    """A variational auto-encoder of what `spec` describes, a vector or an image; see `vae`."""
    network = make_encoder(spec, hidden_layers)
    encoder = VariationalAutoEncoder(z_dim, preprocess_network=network, beta=_beta(spec, noise))
    return AutoEncoder(encoder, partial(make_decoder, spec, hidden_layers))


@configurable
def discrete_vae_codec(
    spec: TensorSpec,
    num_variables: int = 16,
    num_categories: int = 8,
    hidden_layers: Sequence[int] = (64,),
    noise: float = 0.1,
) -> AutoEncoder:
    """A variational auto-encoder with categorical variables of what `spec` describes; see `discrete_vae`."""

    def network(input_tensor_spec: TensorSpec, last_layer_size: int, last_activation: Any) -> Network:
        return make_encoder(input_tensor_spec, hidden_layers, last_layer_size)

    z_spec = BoundedTensorSpec((num_variables,), torch.int64, 0, num_categories - 1)
    encoder = DiscreteVAE(z_spec, spec, z_network_cls=network, beta=_beta(spec, noise))
    return AutoEncoder(encoder, partial(make_decoder, spec, hidden_layers))


@configurable
def vq_vae_codec(
    spec: TensorSpec,
    num_codes: int = 64,
    num_variables: int = 8,
    code_size: int = 8,
    hidden_layers: Sequence[int] = (64,),
    commitment_loss_weight: float = 0.25,
) -> Vqvae:
    """A VQ-VAE of what `spec` describes; see `vq_vae`."""

    def encoder(spec: TensorSpec) -> Network:
        network = make_encoder(spec, hidden_layers, num_variables * code_size)
        return Sequential(network, Reshape((num_variables, code_size), input_dims=1))

    decoder = partial(make_decoder, spec, hidden_layers)
    return Vqvae(spec, num_codes, code_size, encoder, decoder, commitment_loss_weight=commitment_loss_weight)


@configurable
def monet_codec(
    spec: TensorSpec,
    n_slots: int = 4,
    slot_size: int = 8,
    filters: Sequence[int] = (16, 16, 16),
    hidden_layers: Sequence[int] = (64,),
    gamma: float = 0.5,
    beta: float = 0.0,
    noise: float = 0.7,
    decoder_filters: Sequence[int] = (16, 16),
    recurrent_attention: bool = True,
    pixel_embedding_size: int | None = None,
) -> MoNetAlgorithm:
    """MoNet for images that `spec` describes; see `monet`."""
    if spec.ndim != 3:
        raise ValueError(f"monet finds objects in images [C, H, W], but the observation is {spec}")

    def encoder(input_tensor_spec: TensorSpec, last_layer_size: int, last_activation: Any) -> Network:
        network = make_encoder(input_tensor_spec, hidden_layers, last_layer_size)
        return Sequential(_Masked(input_tensor_spec), network)

    if noise <= 0:
        raise ValueError(f"noise is {noise}: it must be positive")
    attention = partial(MoNetUNet, filters=tuple(filters), nonskip_fc_layers=tuple(hidden_layers))
    convolutions = (
        *((channels, 3, 1) for channels in decoder_filters),
        (spec.shape[0] + 1, 3 if decoder_filters else 1, 1),
    )
    decoder = partial(
        SpatialBroadcastDecodingNetwork, conv_layer_params=convolutions, fc_layer_params=tuple(hidden_layers)
    )
    return MoNetAlgorithm(
        n_slots,
        slot_size,
        spec,
        attention,
        encoder,
        decoder,
        recurrent_attention,
        beta=beta,
        gamma=gamma,
        precision=0.5 / noise**2,
        mixes_pixels=True,
        pixel_embedding_size=pixel_embedding_size,
    )


class _Masked(Network):
    """An image as its mask, the last channel, shows it, [B, C + 1, H, W] to the same.

    A slot that has lost almost all pixels still sees those that it has, for only the shape of the mask counts.
    """

    def __init__(self, input_tensor_spec: TensorSpec) -> None:
        super().__init__(input_tensor_spec, name="masked")

    def forward(self, inputs: Tensor, state: Nest = ()) -> tuple[Tensor, Nest]:
        """The image times the mask, which is scaled to a maximum of one, and the mask as it is."""
        image, mask = inputs[:, :-1], inputs[:, -1:]
        visible = mask / mask.amax((2, 3), keepdim=True).clamp_min(1e-6)
        return torch.cat([image * visible, mask], 1), state


def make_decoder(spec: TensorSpec, hidden_layers: Sequence[int], code_spec: TensorSpec) -> Network:
    """A network from codes to observations, which `make_encoder` encodes.

    Args:
        spec: of the observation, a vector or an image [C, H, W].
        hidden_layers: of the encoder.
        code_spec: of the code, of any shape.
    """
    size = TensorSpec((code_spec.numel,))
    if spec.ndim != 3:
        network: Network = EncodingNetwork(
            size, fc_layer_params=tuple(hidden_layers[::-1]), last_layer_size=spec.numel, last_activation=identity
        )
    else:
        network = _image_decoder(spec, hidden_layers, size)
    if code_spec.ndim == 1:
        return network
    return Sequential(Flatten(code_spec.ndim), network, input_tensor_spec=TensorSpec(code_spec.shape))


def _image_decoder(spec: TensorSpec, hidden_layers: Sequence[int], size: TensorSpec) -> Network:
    """Sides that are multiples of four are doubled twice; others have a spatial broadcast, which takes longer."""
    channels, height, width = spec.shape
    layers = tuple(hidden_layers[::-1])
    if height % 4 or width % 4:
        convolutions = ((32, 3, 1), (32, 3, 1), (channels, 3, 1))
        return SpatialBroadcastDecodingNetwork(size, height, width, convolutions, fc_layer_params=layers)
    return ImageDecodingNetwork(
        size,
        ((16, 4, 2, 1), (channels, 4, 2, 1)),
        start_decoding_size=(height // 4, width // 4),
        start_decoding_channels=32,
        preprocess_fc_layer_params=layers,
        output_activation=identity,
    )


def _beta(spec: TensorSpec, noise: float) -> float:
    """The weight of the KL beside a squared error averaged over elements, by the variational bound."""
    if noise <= 0:
        raise ValueError(f"noise is {noise}: it must be positive")
    return 2 * noise**2 / spec.numel


def _learner(codec_ctor: Callable[[TensorSpec], Any], learning_rate: float, is_trained_by_others: bool) -> Arguments:
    def make(observation_spec: Nest, action_spec: Nest, **common: Any) -> Algorithm:
        return ReconstructionLearner(
            observation_spec,
            action_spec,
            codec_ctor=codec_ctor,
            is_trained_by_others=is_trained_by_others,
            optimizer=Adam(lr=learning_rate),
            **common,
        )

    return {"representation_learner_cls": make}


def _checked(hidden_layers: Sequence[int]) -> tuple[int, ...]:
    if not hidden_layers:
        raise ValueError("hidden_layers is empty: there must be at least one")
    return tuple(hidden_layers)
