"""PPO on MiniGrid-Empty-5x5-v0, by PPO's defaults but for a falling rate and the first weights."""

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "PPOAlgorithm",
    "env": "MiniGrid-Empty-5x5-v0",
    "env_steps": 30_000,
    "bar": 0.95,
    "reference": "0.955 is the best return: the goal is reached by the shortest way, five steps of at most 100",
}

pre_config({"final_learning_rate": 0.0, "is_orthogonal": False})
import_config("bases/ppo.py")

config("create_environment", env_name="MiniGrid-Empty-5x5-v0")
config("TrainerConfig", num_env_steps=30_000)
