"""Algorithms that learn from what the current policy has just done."""

from rein.algorithms.on_policy.actor_critic import ActorCriticAlgorithm
from rein.algorithms.on_policy.ppg import PPGAlgorithm, PPGAuxOptions
from rein.algorithms.on_policy.ppo import PPOAlgorithm
from rein.algorithms.on_policy.trac import TracAlgorithm

__all__ = ["ActorCriticAlgorithm", "PPGAlgorithm", "PPGAuxOptions", "PPOAlgorithm", "TracAlgorithm"]
