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
from rein.algorithms.search.models import MCTSModel
from rein.algorithms.search.muzero import MuzeroAlgorithm
from rein.algorithms.search.reanalysis import LinearTdStepFunc
from rein.algorithms.search.representation_impl import MuzeroInfo, MuzeroRepresentationImpl
from rein.algorithms.search.representation_learner import (
    MuzeroRepresentationLearner,
    MuzeroRepresentationTrainingOptions,
)
from rein.algorithms.search.roots import SearchRoot
from rein.algorithms.search.simple_model import SimpleMCTSModel
from rein.algorithms.search.simple_networks import SimplePredictionNet
from rein.algorithms.search.temperatures import VisitSoftmaxTemperatureByMoves, VisitSoftmaxTemperatureByProgress
from rein.ops import calculate_exploration_policy, calculate_kl_exploration_policy

__all__ = [
    "ActionSampler",
    "CategoricalSeedSampler",
    "EpsilonGreedySampler",
    "LinearTdStepFunc",
    "MCTSAlgorithm",
    "MCTSInfo",
    "MCTSModel",
    "MCTSState",
    "ModelOutput",
    "ModelState",
    "ModelTarget",
    "MultinomialSampler",
    "MuzeroAlgorithm",
    "MuzeroInfo",
    "MuzeroRepresentationImpl",
    "MuzeroRepresentationLearner",
    "MuzeroRepresentationTrainingOptions",
    "SearchRoot",
    "SimpleMCTSModel",
    "SimplePredictionNet",
    "VisitSoftmaxTemperatureByMoves",
    "VisitSoftmaxTemperatureByProgress",
    "calculate_exploration_policy",
    "calculate_kl_exploration_policy",
    "create_atari_mcts",
    "create_board_game_mcts",
    "create_control_mcts",
]
