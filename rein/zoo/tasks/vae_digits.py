"""A variational auto-encoder with 8 latents on scikit-learn's 8x8 digits."""

from rein.algorithms.particle_vi.data_sources import digits
from rein.config import config, import_config

ENTRY = {
    "algorithm": "CodecTraining",
    "data": "digits",
    "epochs": 150,
    "measure": "test_error",
    "at_most": 0.0242,
    "reference": "0.0242 (principal components, 8 of them)",
}

import_config("bases/codec.py")

config("digits", batch_size=64)
config("vae_codec", z_dim=8, hidden_layers=(256,))
config("CodecTraining", data_creator=digits)
config("TrainerConfig", num_iterations=150)
