"""Algorithms that learn from what the current policy has just done."""

from rein.algorithms.on_policy.actor_critic import ActorCriticAlgorithm
from rein.algorithms.on_policy.merlin import MerlinAlgorithm, MerlinInfo, MerlinLossInfo, MerlinState
from rein.algorithms.on_policy.merlin_actor import MemoryBasedActor
from rein.algorithms.on_policy.merlin_predictor import MBPLossInfo, MBPState, MemoryBasedPredictor
from rein.algorithms.on_policy.ppg import PPGAlgorithm, PPGAuxOptions
from rein.algorithms.on_policy.ppo import PPOAlgorithm
from rein.algorithms.on_policy.trac import TracAlgorithm

__all__ = [
    "ActorCriticAlgorithm",
    "MBPLossInfo",
    "MBPState",
    "MemoryBasedActor",
    "MemoryBasedPredictor",
    "MerlinAlgorithm",
    "MerlinInfo",
    "MerlinLossInfo",
    "MerlinState",
    "PPGAlgorithm",
    "PPGAuxOptions",
    "PPOAlgorithm",
    "TracAlgorithm",
]
