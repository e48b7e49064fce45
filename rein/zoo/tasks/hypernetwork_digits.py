"""HyperNetwork on scikit-learn's 8x8 digits: a generator of small classifiers."""

from rein.algorithms.particle_vi.data_sources import digits
from rein.config import config, import_config

ENTRY = {
    "algorithm": "HyperNetwork",
    "data": "digits",
    "epochs": 60,
    "measure": "test_acc",
    "bar": 0.975,
    "reference": "0.982 (scikit-learn's MLPClassifier, one layer of 200, 60 passes, mean of three seeds)",
}

import_config("bases/hypernetwork.py")

config("digits", batch_size=64, as_images=False)
config("HyperNetwork", data_creator=digits, fc_layer_params=(200,))
config("TrainerConfig", num_iterations=60)
