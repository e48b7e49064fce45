"""Algorithms that learn from recorded data alone."""

from rein.algorithms.offline.bc import BcAlgorithm
from rein.algorithms.offline.causal_bc import CausalBcAlgorithm
from rein.algorithms.offline.iql import IqlAlgorithm

__all__ = ["BcAlgorithm", "CausalBcAlgorithm", "IqlAlgorithm"]
