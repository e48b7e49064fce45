"""PPO on LunarLander-v3."""

from rein.config import config, import_config, pre_config
from rein.transforms import RewardScaling

ENTRY = {
    "algorithm": "PPOAlgorithm",
    "env": "LunarLander-v3",
    "env_steps": 1_000_000,
    "bar": 220,
    "reference": "242 at 1M steps (RL Baselines3 Zoo)",
}

pre_config({"learning_rate": 5e-4, "final_learning_rate": 0.0, "is_orthogonal": False})
import_config("bases/ppo.py")

config("create_environment", env_name="LunarLander-v3", num_parallel_environments=16)
config("RewardScaling", scale=0.05)
config("PPOLoss", gamma=0.999, td_lambda=0.98, entropy_regularization=0.01)
config(
    "TrainerConfig",
    data_transformer_ctor=RewardScaling,
    num_env_steps=1_000_000,
    unroll_length=512,
    mini_batch_size=128,
    num_updates_per_train_iter=4,
    num_eval_environments=20,
)
