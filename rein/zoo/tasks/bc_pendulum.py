"""Behaviour cloning on Pendulum-v1 from 20 episodes of SAC."""

from rein.config import config, import_config

ENTRY = {
    "algorithm": "BcAlgorithm",
    "env": "Pendulum-v1",
    "env_steps": 0,
    "updates": 4_000,
    "recordings": [{"run": "sac_pendulum", "episodes": 20}],
    "bar": -162,
    "reference": "-152, what the recorded policy reaches; the bar is 10 points below",
}

import_config("bases/bc.py")

config("create_environment", env_name="Pendulum-v1")
config("TrainerConfig", num_iterations=40, num_eval_environments=10)
