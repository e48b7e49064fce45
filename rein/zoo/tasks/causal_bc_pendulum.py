"""Causal behaviour cloning on Pendulum-v1 from 50 episodes of SAC whose actions carry noise that lasts."""

from rein.config import config, import_config

ENTRY = {
    "algorithm": "CausalBcAlgorithm",
    "env": "Pendulum-v1",
    "env_steps": 0,
    "updates": 4_000,
    "recordings": [{"run": "sac_pendulum", "episodes": 50, "policy": "lasting_noise=0.3"}],
    "bar": -170,
    "reference": "-152, what the recorded policy reaches without the noise, and -157 with it",
}

import_config("bases/causal_bc.py")

config("create_environment", env_name="Pendulum-v1")
config("TrainerConfig", num_iterations=40, num_eval_environments=10)
