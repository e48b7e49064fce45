"""Causal behaviour cloning (ResiduIL): not misled by noise that lasts. Learns from a data set."""

from functools import partial

from rein.algorithms.offline import CausalBcAlgorithm
from rein.config import config, define_config, import_config
from rein.networks import ActorNetwork, EncodingNetwork
from rein.optimizers import Adam

ENTRY = {
    "algorithm": "CausalBcAlgorithm",
    "actions": "continuous",
    "learns_from": "data",
    "reference": "Swamy et al. 2022, arXiv:2202.01312",
}

import_config("parts/offline_run.py")

learning_rate = define_config("learning_rate", 3e-4)
hidden_layers = tuple(define_config("hidden_layers", (256, 256)))

config(
    "CausalBcAlgorithm",
    actor_network_cls=partial(ActorNetwork, fc_layer_params=hidden_layers),
    discriminator_network_cls=partial(EncodingNetwork, fc_layer_params=hidden_layers),
    # It is a game: momentum makes both go in circles, and the discriminator must keep up with the policy.
    actor_optimizer=Adam(lr=learning_rate, betas=(0.0, 0.999)),
    discriminator_optimizer=Adam(lr=10 * learning_rate, betas=(0.0, 0.999)),
)
config("TrainerConfig", algorithm_ctor=CausalBcAlgorithm, mini_batch_length=2)
