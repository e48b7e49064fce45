"""What makes representations of observations, and learns them."""

from rein.algorithms.representation.auto_encoder import AutoEncoder, AutoEncoderLossInfo
from rein.algorithms.representation.codec_training import CodecTraining
from rein.algorithms.representation.decoding import DecodingAlgorithm
from rein.algorithms.representation.discrete_vae import DiscreteVAE
from rein.algorithms.representation.encoding import EncodingAlgorithm
from rein.algorithms.representation.monet import MoNetAlgorithm, MoNetInfo, MoNetLossInfo
from rein.algorithms.representation.predictive_representation_learner import (
    PredictiveRepresentationLearner,
    PredictiveRepresentationLearnerInfo,
)
from rein.algorithms.representation.reconstruction_learner import ReconstructionLearner
from rein.algorithms.representation.simple_decoder import SimpleDecoder
from rein.algorithms.representation.vae import VAEInfo, VAEOutput, VariationalAutoEncoder
from rein.algorithms.representation.vq_vae import Vqvae, VqvaeLossInfo

__all__ = [
    "AutoEncoder",
    "AutoEncoderLossInfo",
    "CodecTraining",
    "DecodingAlgorithm",
    "DiscreteVAE",
    "EncodingAlgorithm",
    "MoNetAlgorithm",
    "MoNetInfo",
    "MoNetLossInfo",
    "PredictiveRepresentationLearner",
    "PredictiveRepresentationLearnerInfo",
    "ReconstructionLearner",
    "SimpleDecoder",
    "VAEInfo",
    "VAEOutput",
    "VariationalAutoEncoder",
    "Vqvae",
    "VqvaeLossInfo",
]
