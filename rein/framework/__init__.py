"""What an algorithm is, and how data becomes updates; names no concrete algorithm."""

from rein.framework.algorithm import Algorithm, Loss
from rein.framework.containers import AlgorithmContainer, EchoAlg, RLAlgWrapper, SequentialAlg
from rein.framework.interface import AlgorithmInterface
from rein.framework.off_policy_algorithm import OffPolicyAlgorithm
from rein.framework.on_policy_algorithm import OnPolicyAlgorithm
from rein.framework.rl_algorithm import RLAlgorithm, adjust_replay_buffer_length
from rein.framework.trainer_config import TrainerConfig
from rein.framework.update import NonFiniteLossError

__all__ = [
    "Algorithm",
    "AlgorithmContainer",
    "AlgorithmInterface",
    "EchoAlg",
    "Loss",
    "NonFiniteLossError",
    "OffPolicyAlgorithm",
    "OnPolicyAlgorithm",
    "RLAlgWrapper",
    "RLAlgorithm",
    "SequentialAlg",
    "TrainerConfig",
    "adjust_replay_buffer_length",
]
