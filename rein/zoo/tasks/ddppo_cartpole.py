"""DD-PPO on CartPole-v1: two processes that collect and learn, and average the gradient of every minibatch."""

from rein.config import config, import_config

ENTRY = {
    "algorithm": "PPOAlgorithm",
    "env": "CartPole-v1",
    "env_steps": 100_000,
    "bar": 490,
    "reference": "500 at 100k steps (PPO of RL Baselines3 Zoo)",
}

import_config("tasks/ppo_cartpole.py")

config("Scheme", kind="ddppo", collectors=2)
config("create_environment", num_parallel_environments=4)
config("TrainerConfig", mini_batch_size=128)  # Of each process: 256 together.
