"""PPO on FrozenLake-v1 without slipping, by PPO's defaults but for a falling rate and the first weights."""

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "PPOAlgorithm",
    "env": "FrozenLake-v1",
    "env_steps": 30_000,
    "bar": 1.0,
    "reference": "1 is the best return: the goal is reached in every episode",
}

pre_config({"final_learning_rate": 0.0, "is_orthogonal": False})
import_config("bases/ppo.py")

config("create_environment", env_name="FrozenLake-v1", env_kwargs={"is_slippery": False})
config("TrainerConfig", num_env_steps=30_000)
