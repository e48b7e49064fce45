"""FuncParVI on scikit-learn's 8x8 digits: ten classifiers whose weights keep apart."""

from rein.algorithms.particle_vi.data_sources import digits
from rein.config import config, import_config

ENTRY = {
    "algorithm": "FuncParVIAlgorithm",
    "data": "digits",
    "epochs": 60,
    "measure": "test_acc",
    "bar": 0.97,
    "reference": "0.982 (scikit-learn's MLPClassifier, one layer of 200, 60 passes, mean of three seeds)",
}

import_config("bases/func_par_vi.py")

config("digits", batch_size=64, as_images=False)
config("FuncParVIAlgorithm", data_creator=digits, fc_layer_params=(200,))
config("TrainerConfig", num_iterations=60)
