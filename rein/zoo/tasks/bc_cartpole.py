"""Behaviour cloning on CartPole-v1 from 20 episodes of PPO."""

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "BcAlgorithm",
    "env": "CartPole-v1",
    "env_steps": 0,
    "updates": 2_000,
    "recordings": [{"run": "ppo_cartpole", "episodes": 20}],
    "bar": 475,
    "reference": "500, what the recorded policy reaches; the bar is 95 % of it",
}

pre_config({"hidden_layers": (64, 64)})
import_config("bases/bc.py")

config("create_environment", env_name="CartPole-v1")
config("TrainerConfig", num_iterations=20, num_eval_environments=10)
