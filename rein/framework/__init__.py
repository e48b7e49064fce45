"""What an algorithm is, and how data becomes updates; names no concrete algorithm."""

from rein.framework.acting.epsilon_greedy import default_epsilon_greedy
from rein.framework.acting.quick_rollout import QuickActor
from rein.framework.algorithm import Algorithm, Loss, OfflineInfo
from rein.framework.containers import AlgorithmContainer, EchoAlg, RLAlgWrapper, SequentialAlg, sum_losses
from rein.framework.interface import AlgorithmInterface
from rein.framework.off_policy_algorithm import OffPolicyAlgorithm
from rein.framework.on_policy_algorithm import OnPolicyAlgorithm
from rein.framework.rl_algorithm import RLAlgorithm, adjust_replay_buffer_length
from rein.framework.trainable import Trainable
from rein.framework.trainer_config import TrainerConfig
from rein.framework.updating import Batch, Gradients, NonFiniteLossError, ReplayTraining, UpdateSettings
from rein.framework.updating.offline_data import OfflineData, OfflineSource

__all__ = [
    "Algorithm",
    "AlgorithmContainer",
    "AlgorithmInterface",
    "Batch",
    "EchoAlg",
    "Gradients",
    "Loss",
    "NonFiniteLossError",
    "OffPolicyAlgorithm",
    "OfflineData",
    "OfflineInfo",
    "OfflineSource",
    "OnPolicyAlgorithm",
    "QuickActor",
    "RLAlgWrapper",
    "RLAlgorithm",
    "ReplayTraining",
    "SequentialAlg",
    "Trainable",
    "TrainerConfig",
    "UpdateSettings",
    "adjust_replay_buffer_length",
    "default_epsilon_greedy",
    "sum_losses",
]
