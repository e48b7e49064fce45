"""Trusted actor-critic: A2C whose policy stays within a trust region at every update."""

from rein.algorithms.on_policy import TracAlgorithm
from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "TracAlgorithm",
    "actions": "discrete, continuous or mixed",
    "reference": "Schulman et al. 2015, arXiv:1502.05477, on Mnih et al. 2016, arXiv:1602.01783",
}

pre_config({"final_learning_rate": 0.0})
import_config("a2c.py")

config("create_environment", num_parallel_environments=8)
config("ActorCriticLoss", use_gae=True, td_lambda=0.95, gamma=0.99)
config("TracAlgorithm", action_dist_clip_per_dim=0.01)
config("TrainerConfig", algorithm_ctor=TracAlgorithm, unroll_length=16)
