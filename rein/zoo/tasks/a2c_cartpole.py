"""Advantage actor-critic on CartPole-v1."""

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "ActorCriticAlgorithm",
    "env": "CartPole-v1",
    "env_steps": 500_000,
    "bar": 490,
    "reference": "500 at 500k steps (RL Baselines3 Zoo)",
}

pre_config({"final_learning_rate": 0.0})
import_config("bases/a2c.py")

config("create_environment", env_name="CartPole-v1", num_parallel_environments=8)
config("TrainerConfig", num_env_steps=500_000, num_eval_environments=10)
