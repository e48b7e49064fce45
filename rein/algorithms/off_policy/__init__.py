"""Algorithms that learn from stored experience."""

from rein.algorithms.off_policy.oac import OacAlgorithm
from rein.algorithms.off_policy.qrsac import QrsacAlgorithm
from rein.algorithms.off_policy.sac import SacAlgorithm
from rein.algorithms.off_policy.taac import TaacAlgorithm, TaacLAlgorithm, TaacQAlgorithm
from rein.algorithms.off_policy.taac_loss import TAACTDLoss

__all__ = [
    "OacAlgorithm",
    "QrsacAlgorithm",
    "SacAlgorithm",
    "TAACTDLoss",
    "TaacAlgorithm",
    "TaacLAlgorithm",
    "TaacQAlgorithm",
]
