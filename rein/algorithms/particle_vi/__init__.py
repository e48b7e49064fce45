"""Inference by particles and by generators of particles, and ensembles of networks trained with them."""

from rein.algorithms.particle_vi.critic import CriticAlgorithm
from rein.algorithms.particle_vi.ensemble_uncertainty import EnsembleUncertaintyAlgorithm
from rein.algorithms.particle_vi.functional import FuncParVIAlgorithm
from rein.algorithms.particle_vi.generator import Generator, GeneratorLossInfo
from rein.algorithms.particle_vi.hypernetwork import HyperNetwork
from rein.algorithms.particle_vi.inverse_mvp import InverseMVPAlgorithm
from rein.algorithms.particle_vi.mi_estimator import MIEstimator
from rein.algorithms.particle_vi.particle_vi import ParVIAlgorithm

__all__ = [
    "CriticAlgorithm",
    "EnsembleUncertaintyAlgorithm",
    "FuncParVIAlgorithm",
    "Generator",
    "GeneratorLossInfo",
    "HyperNetwork",
    "InverseMVPAlgorithm",
    "MIEstimator",
    "ParVIAlgorithm",
]
