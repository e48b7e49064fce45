"""DDPG without hindsight replay on reaching points: it fails, which is the point."""

from rein.config import config, import_config

ENTRY = {
    "algorithm": "DdpgAlgorithm",
    "env": "rein/Reach-v0",
    "env_steps": 50_000,
    "measure": "success_rate",
    "at_most": 0.15,
    "reference": "0: plain replay learns next to nothing; Andrychowicz et al. 2017, arXiv:1707.01495, figure 3",
}

import_config("ddpg_hindsight_reach.py")

config("TrainerConfig", data_transformer_ctor=None)
