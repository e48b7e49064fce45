"""Behaviour cloning: does what the recorded data does. Learns from a data set."""

from functools import partial

from rein.algorithms.offline import BcAlgorithm
from rein.config import config, define_config, import_config
from rein.networks import ActorDistributionNetwork, NormalProjectionNetwork
from rein.ops import clipped_exp
from rein.optimizers import Adam

ENTRY = {
    "algorithm": "BcAlgorithm",
    "actions": "any",
    "learns_from": "data",
    "reference": "Pomerleau 1988, ALVINN",
}

import_config("parts/offline_run.py")

learning_rate = define_config("learning_rate", 1e-3)
hidden_layers = tuple(define_config("hidden_layers", (256, 256)))

config(
    "NormalProjectionNetwork",
    squash_mean=True,
    state_dependent_std=False,
    std_transform=partial(clipped_exp, value_min=-5.0, value_max=2.0),
)
config(
    "BcAlgorithm",
    actor_network_cls=partial(
        ActorDistributionNetwork, fc_layer_params=hidden_layers, continuous_projection_net_ctor=NormalProjectionNetwork
    ),
    actor_optimizer=Adam(lr=learning_rate),
)
config("TrainerConfig", algorithm_ctor=BcAlgorithm, mini_batch_length=1)
