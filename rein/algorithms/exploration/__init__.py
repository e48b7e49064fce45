"""What makes agents explore: rewards for what is new, and goals of their own."""

from rein.algorithms.exploration.diayn import DIAYNAlgorithm
from rein.algorithms.exploration.goal_generator import GoalInfo, GoalState, RandomCategoricalGoalGenerator
from rein.algorithms.exploration.icm import ICMAlgorithm
from rein.algorithms.exploration.rnd import RNDAlgorithm

__all__ = [
    "DIAYNAlgorithm",
    "GoalInfo",
    "GoalState",
    "ICMAlgorithm",
    "RNDAlgorithm",
    "RandomCategoricalGoalGenerator",
]
