"""Algorithms that learn from stored experience."""

from rein.algorithms.off_policy.sac import SacAlgorithm

__all__ = ["SacAlgorithm"]
