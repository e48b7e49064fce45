"""PPO on rein/Catch-v0, a game seen as pixels, by PPO's defaults but for a falling rate and the first weights."""

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "PPOAlgorithm",
    "env": "rein/Catch-v0",
    "env_steps": 100_000,
    "bar": 0.95,
    "reference": "1 is the best return: every ball is caught; actions at random earn about -0.5",
}

pre_config({"final_learning_rate": 0.0, "is_orthogonal": False})
import_config("bases/ppo.py")

config("create_environment", env_name="rein/Catch-v0")
config("TrainerConfig", num_env_steps=100_000)
