"""TAAC on MountainCarContinuous-v0."""

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "TaacAlgorithm",
    "env": "MountainCarContinuous-v0",
    "env_steps": 100_000,
    "bar": 90,
    "reference": "normalised score 0.96, SAC 0.68 (Yu et al. 2021)",
}

pre_config({"learning_rate": 1e-3})
import_config("bases/taac.py")

config("create_environment", env_name="MountainCarContinuous-v0")
config("TrainerConfig", num_env_steps=100_000, replay_buffer_length=100_000, num_eval_environments=20)
