"""What makes representations of observations, and learns them."""

from rein.algorithms.representation.decoding import DecodingAlgorithm
from rein.algorithms.representation.encoding import EncodingAlgorithm
from rein.algorithms.representation.predictive_representation_learner import (
    PredictiveRepresentationLearner,
    PredictiveRepresentationLearnerInfo,
)
from rein.algorithms.representation.simple_decoder import SimpleDecoder

__all__ = [
    "DecodingAlgorithm",
    "EncodingAlgorithm",
    "PredictiveRepresentationLearner",
    "PredictiveRepresentationLearnerInfo",
    "SimpleDecoder",
]
