"""PPO on CartPole-v1 with a fifth of the steps of ppo_cartpole, to compare with ppo_muzero_representation_cartpole."""

from rein.config import config, import_config

ENTRY = {
    "algorithm": "PPOAlgorithm",
    "env": "CartPole-v1",
    "env_steps": 20_000,
    "reference": "to compare with ppo_muzero_representation_cartpole",
}

import_config("ppo_cartpole.py")

config("TrainerConfig", num_env_steps=20_000)
