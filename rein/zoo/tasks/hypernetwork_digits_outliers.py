"""HyperNetwork on the digits 0 to 5: its uncertainty tells 6 to 9, which it has never seen."""

from rein.algorithms.particle_vi.data_sources import digits, outlier_digits
from rein.config import config, import_config

ENTRY = {
    "algorithm": "HyperNetwork",
    "data": "digits 0 to 5",
    "epochs": 30,
    "measure": "auroc_entropy",
    "bar": 0.95,
    "reference": "0.972 (entropy of scikit-learn's MLPClassifier, one layer of 100, 30 passes, mean of three seeds)",
}

import_config("bases/hypernetwork.py")

config("digits", batch_size=64, classes=(0, 1, 2, 3, 4, 5), as_images=False)
config("outlier_digits", classes=(6, 7, 8, 9), as_images=False)
config("HyperNetwork", data_creator=digits, data_creator_outlier=outlier_digits)
config("TrainerConfig", num_iterations=30, eval_uncertainty=True)
