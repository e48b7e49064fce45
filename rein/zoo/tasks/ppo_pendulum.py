"""PPO on Pendulum-v1: small rewards, and twenty passes over each rollout."""

from functools import partial

from rein.config import config, import_config, pre_config
from rein.transforms import RewardScaling

ENTRY = {
    "algorithm": "PPOAlgorithm",
    "env": "Pendulum-v1",
    "env_steps": 100_000,
    "bar": -200,
    "reference": "-172 (RL Baselines3 Zoo)",
}

pre_config({"learning_rate": 1e-3, "final_learning_rate": 0.0, "is_orthogonal": False})
import_config("bases/ppo.py")

config("create_environment", env_name="Pendulum-v1", num_parallel_environments=4)
config("PPOLoss", gamma=0.9, td_lambda=0.95)
config(
    "TrainerConfig",
    data_transformer_ctor=partial(RewardScaling, 0.1),
    num_env_steps=100_000,
    unroll_length=512,
    mini_batch_size=128,
    num_updates_per_train_iter=20,
    num_eval_environments=20,
)
