"""Representation learners that no agent takes as they are, and agents with a learner of codes."""

from functools import partial
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box

from rein.agents import Agent
from rein.algorithms.off_policy import SacAlgorithm
from rein.algorithms.on_policy import ActorCriticAlgorithm
from rein.algorithms.representation import (
    AutoEncoder,
    CodecTraining,
    DecodingAlgorithm,
    DiscreteVAE,
    MoNetAlgorithm,
    ReconstructionLearner,
    VariationalAutoEncoder,
    Vqvae,
)
from rein.data_structures import LossInfo
from rein.framework import Algorithm
from rein.networks import EncodingNetwork, MoNetUNet, NestConcat, SpatialBroadcastDecodingNetwork
from rein.networks.layers import Flatten, identity
from rein.specs import BoundedTensorSpec, TensorSpec
from tests.contract.world import REPLAY, ROLLOUT, Case, Part, Tiny, adam

VECTOR = TensorSpec((3,))
LAYERS = partial(EncodingNetwork, fc_layer_params=(8,), last_activation=identity)


def vectors() -> torch.Tensor:
    return torch.linspace(-1, 1, 12).reshape(4, 3)


def decoding() -> DecodingAlgorithm:
    algorithm = DecodingAlgorithm(LAYERS(VECTOR, last_layer_size=2))
    algorithm.add_optimizer(adam(), [algorithm._decoder])
    return algorithm


def decoding_losses(algorithm: DecodingAlgorithm) -> LossInfo:
    return algorithm.calc_loss(algorithm.train_step((vectors(), vectors()[:, :2] ** 2)).info)


def vae(spec: TensorSpec = VECTOR, **arguments: Any) -> AutoEncoder:
    encoder = VariationalAutoEncoder(2, spec, target_kld_per_dim=0.1)
    return AutoEncoder(encoder, partial(LAYERS, last_layer_size=spec.numel), **arguments)


def conditional_vae() -> AutoEncoder:
    prior = LAYERS(TensorSpec((2,)), last_layer_size=4)
    encoder = VariationalAutoEncoder(2, VECTOR, z_prior_network=prior, target_kld_per_dim=0.1, beta_optimizer=adam())
    return AutoEncoder(encoder, partial(LAYERS, last_layer_size=3), optimizer=adam())


def discrete_vae() -> AutoEncoder:
    encoder = DiscreteVAE(
        BoundedTensorSpec((4,), torch.int64, 0, 2),
        VECTOR,
        partial(LAYERS, preprocessing_combiner=NestConcat()),
        TensorSpec((2,)),
        LAYERS,
        mode="st-gumbel",
        target_kld_per_categorical=0.1,
    )
    decoder = partial(LAYERS, input_preprocessors=Flatten(2), last_layer_size=3)
    return AutoEncoder(encoder, decoder, optimizer=adam())


def vq_vae(spec: TensorSpec = VECTOR, **arguments: Any) -> Vqvae:
    return Vqvae(
        spec, 4, 2, partial(LAYERS, last_layer_size=2), partial(LAYERS, last_layer_size=spec.numel), **arguments
    )


IMAGE = TensorSpec((3, 8, 8))


def monet(spec: TensorSpec = IMAGE, **arguments: Any) -> MoNetAlgorithm:
    return MoNetAlgorithm(
        3,
        4,
        spec,
        partial(MoNetUNet, filters=(4, 4), nonskip_fc_layers=(8,)),
        partial(EncodingNetwork, conv_layer_params=((4, 3, 2),)),
        partial(SpatialBroadcastDecodingNetwork, conv_layer_params=((4, 3, 1), (4, 3, 1))),
        beta=0.1,
        gamma=0.1,
        **arguments,
    )


def monet_alone(**arguments: Any) -> MoNetAlgorithm:
    algorithm = monet(**arguments)
    algorithm.add_optimizer(adam(), list(algorithm.children()))
    return algorithm


def image_losses(algorithm: MoNetAlgorithm) -> LossInfo:
    images = torch.linspace(0, 40, 384).sin().abs().reshape(2, 3, 8, 8)
    return algorithm.calc_loss(algorithm.train_step(images).info)


def codec_training() -> CodecTraining:
    return CodecTraining(vae, lambda: ([vectors()], [vectors()]), optimizer=adam())


def losses(algorithm: Algorithm) -> LossInfo:
    return algorithm.calc_loss(algorithm.train_step(vectors(), (), ()).info)


def conditional_losses(algorithm: Algorithm) -> LossInfo:
    condition = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    return algorithm.calc_loss(algorithm.train_step((condition, vectors()), (), ()).info)


PARTS = {
    "decoding": Part(decoding, decoding_losses),
    "vae": Part(lambda: vae(optimizer=adam()), losses),
    "conditional_vae": Part(conditional_vae, conditional_losses),
    "discrete_vae": Part(discrete_vae, conditional_losses),
    "codec_training": Part(codec_training, losses),
    "monet": Part(monet_alone, image_losses),
    "monet_from_seeds": Part(partial(monet_alone, pixel_embedding_size=2), image_losses),
    "vq_vae": Part(lambda: vq_vae(optimizer=adam()), losses),
}


class Images(Tiny):
    """Random images."""

    observation_space = Box(0, 1, tuple(IMAGE.shape), np.float32)

    def _observation(self) -> Any:
        return self.np_random.random(IMAGE.shape, np.float32)


def agent(rl: Any, codec: Any, **arguments: Any) -> dict[str, Any]:
    learner = partial(ReconstructionLearner, codec_ctor=codec, optimizer=adam(), **arguments)
    return {"rl_algorithm_cls": rl, "representation_learner_cls": learner, "optimizer": adam()}


CASES = {
    "agent_vae_sac": Case(Agent, "continuous", REPLAY, partial(agent, SacAlgorithm, vae)),
    "agent_vae_a2c": Case(Agent, "discrete", ROLLOUT, partial(agent, ActorCriticAlgorithm, vae)),
    "agent_vq_vae_sac": Case(
        Agent, "discrete", REPLAY, partial(agent, SacAlgorithm, vq_vae, is_trained_by_others=True)
    ),
    "agent_monet_sac": Case(Agent, "discrete", REPLAY, partial(agent, SacAlgorithm, monet), world=Images),
    "agent_monet_from_seeds_sac": Case(
        Agent, "discrete", REPLAY, partial(agent, SacAlgorithm, partial(monet, pixel_embedding_size=2)), world=Images
    ),
}
