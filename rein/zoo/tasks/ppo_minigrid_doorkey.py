"""PPO on MiniGrid-DoorKey-5x5-v0, by PPO's defaults but for a falling rate and the first weights."""

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "PPOAlgorithm",
    "env": "MiniGrid-DoorKey-5x5-v0",
    "env_steps": 100_000,
    "bar": 0.94,
    "reference": "0.96 is the best return on average: key, door and goal by the shortest way, of at most 250 steps",
}

pre_config({"final_learning_rate": 0.0, "is_orthogonal": False})
import_config("bases/ppo.py")

config("create_environment", env_name="MiniGrid-DoorKey-5x5-v0")
config("TrainerConfig", num_env_steps=100_000)
