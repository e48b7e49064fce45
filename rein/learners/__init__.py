"""Learners: acting, gradients, steps and weights as separate calls, over an actor that is handed in."""

from rein.learners.base import Learner
from rein.learners.ddpg import DDPG
from rein.learners.ddqn import DDQN
from rein.learners.factories import LearnerFactory
from rein.learners.learner_algorithm import LearnerAlgorithm
from rein.learners.mpo import MPO
from rein.learners.network_actor import NetworkActor, build_network_actor
from rein.learners.sac import SAC
from rein.learners.td3 import TD3

__all__ = [
    "DDPG",
    "DDQN",
    "MPO",
    "SAC",
    "TD3",
    "Learner",
    "LearnerAlgorithm",
    "LearnerFactory",
    "NetworkActor",
    "build_network_actor",
]
