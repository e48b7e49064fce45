"""Ape-X on CartPole-v1: four collectors that explore to different degrees, and a prioritized shard."""

from rein.config import config, import_config, pre_config
from rein.runtime import LinearScheduler

ENTRY = {
    "algorithm": "DqnAlgorithm",
    "env": "CartPole-v1",
    "env_steps": 80_000,
    "bar": 475,
    "reference": "500 at 50k steps (DQN of RL Baselines3 Zoo)",
}

pre_config({"learning_rate": LinearScheduler("percent", ((0.0, 1e-3), (1.0, 1e-5)))})
import_config("bases/apex.py")

config("Scheme", kind="apex", collectors=4)
config("DqnAlgorithm", num_critic_replicas=2)
config("create_environment", env_name="CartPole-v1")
config("TrainerConfig", num_env_steps=80_000, num_updates_per_train_iter=16, num_eval_environments=20)
