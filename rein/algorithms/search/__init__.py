"""Monte Carlo tree search with learnt models, and MuZero."""

from rein.algorithms.search.action_samplers import (
    ActionSampler,
    CategoricalSeedSampler,
    EpsilonGreedySampler,
    MultinomialSampler,
)
from rein.algorithms.search.makers import create_atari_mcts, create_board_game_mcts, create_control_mcts
from rein.algorithms.search.mcts import MCTSAlgorithm, MCTSInfo, MCTSState
from rein.algorithms.search.model_structures import ModelOutput, ModelState, ModelTarget
from rein.algorithms.search.roots import SearchRoot
from rein.algorithms.search.temperatures import VisitSoftmaxTemperatureByMoves, VisitSoftmaxTemperatureByProgress
from rein.ops import calculate_exploration_policy, calculate_kl_exploration_policy

__all__ = [
    "ActionSampler",
    "CategoricalSeedSampler",
    "EpsilonGreedySampler",
    "MCTSAlgorithm",
    "MCTSInfo",
    "MCTSState",
    "ModelOutput",
    "ModelState",
    "ModelTarget",
    "MultinomialSampler",
    "SearchRoot",
    "VisitSoftmaxTemperatureByMoves",
    "VisitSoftmaxTemperatureByProgress",
    "calculate_exploration_policy",
    "calculate_kl_exploration_policy",
    "create_atari_mcts",
    "create_board_game_mcts",
    "create_control_mcts",
]
