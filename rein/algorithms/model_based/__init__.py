"""Algorithms that learn a model of the world and plan with it."""

from rein.algorithms.model_based.dynamics_learning import (
    DeterministicDynamicsAlgorithm,
    DynamicsInfo,
    DynamicsLearningAlgorithm,
    DynamicsState,
    StochasticDynamicsAlgorithm,
)
from rein.algorithms.model_based.known_rewards import cartpole_reward, pendulum_reward
from rein.algorithms.model_based.latent_mbrl import LatentMbrlAlgorithm
from rein.algorithms.model_based.mbrl import MbrlAlgorithm, MbrlInfo, MbrlState
from rein.algorithms.model_based.planning import (
    CEMPlanAlgorithm,
    PlanAlgorithm,
    PlannerInfo,
    PlannerState,
    RandomShootingAlgorithm,
)
from rein.algorithms.model_based.reward_learning import (
    FixedRewardFunction,
    LearnedRewardFunction,
    RewardEstimationAlgorithm,
)

__all__ = [
    "CEMPlanAlgorithm",
    "DeterministicDynamicsAlgorithm",
    "DynamicsInfo",
    "DynamicsLearningAlgorithm",
    "DynamicsState",
    "FixedRewardFunction",
    "LatentMbrlAlgorithm",
    "LearnedRewardFunction",
    "MbrlAlgorithm",
    "MbrlInfo",
    "MbrlState",
    "PlanAlgorithm",
    "PlannerInfo",
    "PlannerState",
    "RandomShootingAlgorithm",
    "RewardEstimationAlgorithm",
    "StochasticDynamicsAlgorithm",
    "cartpole_reward",
    "pendulum_reward",
]
