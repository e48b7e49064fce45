"""VQ-VAE with 4 codes out of 64 on scikit-learn's 8x8 digits."""

from rein.agents.representation_parts import vq_vae_codec
from rein.algorithms.particle_vi.data_sources import digits
from rein.config import config, import_config

ENTRY = {
    "algorithm": "CodecTraining",
    "data": "digits",
    "epochs": 150,
    "measure": "test_error",
    "at_most": 0.0210,
    "reference": "0.0210 (k-means with 256 means); van den Oord et al. 2017, arXiv:1711.00937",
}

import_config("bases/codec.py")

config("digits", batch_size=64)
config("vq_vae_codec", num_codes=64, num_variables=4, code_size=8, hidden_layers=(256,))
config("CodecTraining", codec_ctor=vq_vae_codec, data_creator=digits)
config("TrainerConfig", num_iterations=150)
