"""Algorithms that learn from what the current policy has just done."""

from rein.algorithms.on_policy.actor_critic import ActorCriticAlgorithm
from rein.algorithms.on_policy.ppo import PPOAlgorithm

__all__ = ["ActorCriticAlgorithm", "PPOAlgorithm"]
