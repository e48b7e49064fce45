"""Ape-X on CartPole-v1: four collectors that explore to different degrees, and a prioritized shard."""

from rein.config import config, import_config

ENTRY = {
    "algorithm": "DqnAlgorithm",
    "env": "CartPole-v1",
    "env_steps": 60_000,
    "bar": 475,
    "reference": "500 at 50k steps (DQN of RL Baselines3 Zoo)",
}

import_config("bases/apex.py")

config("Scheme", kind="apex", collectors=4)
config("create_environment", env_name="CartPole-v1")
config("TrainerConfig", num_env_steps=60_000, num_eval_environments=20)
