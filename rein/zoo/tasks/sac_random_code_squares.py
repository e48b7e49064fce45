"""SAC on images of bouncing squares, which it sees by the encoder of `sac_vae_squares` as it was made, untrained."""

from rein.config import config, import_config

ENTRY = {
    "algorithm": "SacAlgorithm",
    "env": "rein/BouncingSquares-v0",
    "env_steps": 30_000,
    "reference": "of 50 steps; to compare with sac_vae_squares",
}

import_config("sac_vae_squares.py")

config("vae", learning_rate=0.0)
