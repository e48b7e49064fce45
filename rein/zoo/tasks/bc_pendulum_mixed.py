"""Behaviour cloning on Pendulum-v1 from the mixed data of iql_pendulum: it copies the bad with the good."""

from rein.config import config, import_config

ENTRY = {
    "algorithm": "BcAlgorithm",
    "env": "Pendulum-v1",
    "env_steps": 0,
    "updates": 4_000,
    "recordings": [
        {"run": "sac_pendulum", "episodes": 50, "policy": "random"},
        {"run": "sac_pendulum", "episodes": 50, "at": 0.3},
        {"run": "sac_pendulum", "episodes": 20},
    ],
    "at_most": -500,
    "reference": "what iql_pendulum is compared with",
}

import_config("bases/bc.py")

config("create_environment", env_name="Pendulum-v1")
config("TrainerConfig", num_iterations=40, num_eval_environments=10)
