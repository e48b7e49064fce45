"""SAC on reaching points, rewarded at the goal only, with 100 recorded episodes beside what it does itself."""

from rein.config import config, import_config

ENTRY = {
    "algorithm": "SacAlgorithm",
    "env": "rein/Reach-v0",
    "env_steps": 25_000,
    "measure": "success_rate",
    "bar": 0.95,
    "recordings": [{"run": "ddpg_hindsight_reach", "episodes": 100, "policy": "noise=0.05"}],
    "reference": "1: every goal is reached, in half of the steps of sac_plain_reach, which does not",
}

import_config("sac_plain_reach.py")

config("TrainerConfig", num_env_steps=25_000)
