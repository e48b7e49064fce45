"""PPO on Taxi-v4, by PPO's defaults but for a falling rate and the first weights."""

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "PPOAlgorithm",
    "env": "Taxi-v4",
    "env_steps": 500_000,
    "bar": 7.5,
    "reference": "7.9 is about the best return on average: every passenger is brought by the shortest way",
}

pre_config({"final_learning_rate": 0.0, "is_orthogonal": False})
import_config("bases/ppo.py")

config("create_environment", env_name="Taxi-v4")
config("TrainerConfig", num_env_steps=500_000)
