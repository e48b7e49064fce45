"""SAC on images of bouncing squares, seen by the encoder of `sac_vae_squares` as it was made: it learns less."""

from rein.config import config, import_config

ENTRY = {
    "algorithm": "SacAlgorithm",
    "env": "rein/BouncingSquares-v0",
    "env_steps": 12_000,
    "at_most": 25,
    "reference": "12 is about what actions at random earn, of 50 steps; to compare with sac_vae_squares",
}

import_config("sac_vae_squares.py")

config("vae", learning_rate=0.0)
