"""TRAC on CartPole-v1: PPO within a trust region."""

from rein.algorithms.on_policy import PPOAlgorithm, TracAlgorithm
from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "TracAlgorithm",
    "env": "CartPole-v1",
    "env_steps": 100_000,
    "bar": 475,
    "reference": "500 (TRPO, RL Baselines3 Zoo)",
}

pre_config({"learning_rate": 1e-3, "final_learning_rate": 0.0, "is_orthogonal": False})
import_config("bases/ppo.py")

config("create_environment", env_name="CartPole-v1")
config("PPOLoss", gamma=0.98, td_lambda=0.8)
config("TracAlgorithm", ac_algorithm_cls=PPOAlgorithm, action_dist_clip_per_dim=0.05)
config(
    "TrainerConfig",
    algorithm_ctor=TracAlgorithm,
    num_env_steps=100_000,
    unroll_length=32,
    mini_batch_size=256,
    num_updates_per_train_iter=20,
    num_eval_environments=20,
)
