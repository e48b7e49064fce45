"""What keeps policies from collapsing: entropy targets, weights of several rewards, priors."""

from rein.algorithms.regularization.entropy_target import (
    EntropyTargetAlgorithm,
    EntropyTargetInfo,
    EntropyTargetLossInfo,
    NestedEntropyTargetAlgorithm,
    SGDEntropyTargetAlgorithm,
)
from rein.algorithms.regularization.lagrangian_reward_weight import (
    LagInfo,
    LagrangianPredRewardWeightAlgorithm,
    LagrangianRewardWeightAlgorithm,
)
from rein.algorithms.regularization.prior_actor import PriorActor, SameActionPriorActor, UniformPriorActor

__all__ = [
    "EntropyTargetAlgorithm",
    "EntropyTargetInfo",
    "EntropyTargetLossInfo",
    "LagInfo",
    "LagrangianPredRewardWeightAlgorithm",
    "LagrangianRewardWeightAlgorithm",
    "NestedEntropyTargetAlgorithm",
    "PriorActor",
    "SGDEntropyTargetAlgorithm",
    "SameActionPriorActor",
    "UniformPriorActor",
]
