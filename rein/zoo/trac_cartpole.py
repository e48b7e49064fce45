"""TRAC on CartPole-v1: A2C within a trust region."""

from rein.algorithms.on_policy import TracAlgorithm
from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "TracAlgorithm",
    "env": "CartPole-v1",
    "env_steps": 100_000,
    "bar": 475,
    "reference": "500 (TRPO, RL Baselines3 Zoo)",
}

pre_config({"learning_rate": 2e-3})
import_config("bases/a2c.py")

config("create_environment", env_name="CartPole-v1")
config("ActorCriticLoss", use_gae=True, td_lambda=0.95, gamma=0.98)
config("TracAlgorithm", action_dist_clip_per_dim=0.01)
config(
    "TrainerConfig",
    algorithm_ctor=TracAlgorithm,
    num_env_steps=100_000,
    unroll_length=16,
    num_eval_environments=20,
)
