"""DQN without hindsight replay on flipping 15 bits: it fails, which is the point."""

from rein.config import config, import_config

ENTRY = {
    "algorithm": "DqnAlgorithm",
    "env": "rein/BitFlip-v0",
    "env_steps": 150_000,
    "measure": "success_rate",
    "at_most": 0.15,
    "reference": "0: never solved beyond 13 bits; Andrychowicz et al. 2017, arXiv:1707.01495, section 3.1",
}

import_config("dqn_hindsight_bitflip.py")

config("TrainerConfig", data_transformer_ctor=None)
