"""Algorithms that learn from stored experience."""

from rein.algorithms.off_policy.ddpg import DdpgAlgorithm
from rein.algorithms.off_policy.dqn import DqnAlgorithm
from rein.algorithms.off_policy.mdq import MdqAlgorithm
from rein.algorithms.off_policy.mpo import MpoAlgorithm
from rein.algorithms.off_policy.oac import OacAlgorithm
from rein.algorithms.off_policy.qrsac import QrsacAlgorithm
from rein.algorithms.off_policy.sac import SacAlgorithm
from rein.algorithms.off_policy.sarsa import SarsaAlgorithm
from rein.algorithms.off_policy.taac import TaacAlgorithm, TaacLAlgorithm, TaacQAlgorithm
from rein.algorithms.off_policy.taac_loss import TAACTDLoss
from rein.algorithms.off_policy.td3 import Td3Algorithm

__all__ = [
    "DdpgAlgorithm",
    "DqnAlgorithm",
    "MdqAlgorithm",
    "MpoAlgorithm",
    "OacAlgorithm",
    "QrsacAlgorithm",
    "SacAlgorithm",
    "SarsaAlgorithm",
    "TAACTDLoss",
    "TaacAlgorithm",
    "TaacLAlgorithm",
    "TaacQAlgorithm",
    "Td3Algorithm",
]
