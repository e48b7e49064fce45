"""PPO on Acrobot-v1."""

from rein.config import config, import_config, pre_config
from rein.transforms import ObservationNormalizer

ENTRY = {
    "algorithm": "PPOAlgorithm",
    "env": "Acrobot-v1",
    "env_steps": 500_000,
    "bar": -86,
    "reference": "-86.4 (CleanRL), -73.5 at 1M steps (RL Baselines3 Zoo)",
}

pre_config({"final_learning_rate": 0.0, "is_orthogonal": False})
import_config("bases/ppo.py")

config("create_environment", env_name="Acrobot-v1", num_parallel_environments=16)
config("ObservationNormalizer", clipping=10.0)
config("PPOLoss", gamma=0.99, td_lambda=0.94)
config(
    "TrainerConfig",
    data_transformer_ctor=ObservationNormalizer,
    num_env_steps=500_000,
    unroll_length=256,
    mini_batch_size=256,
    num_updates_per_train_iter=4,
    num_eval_environments=20,
)
