"""Causal behaviour cloning (ResiduIL): not misled by noise that lasts. Learns from a data set."""

from functools import partial

from rein.algorithms.offline import CausalBcAlgorithm
from rein.config import config, define_config
from rein.networks import ActorNetwork, EncodingNetwork
from rein.optimizers import Adam

ENTRY = {
    "algorithm": "CausalBcAlgorithm",
    "actions": "continuous",
    "learns_from": "data",
    "reference": "Swamy et al. 2022, arXiv:2202.01312",
}

learning_rate = define_config("learning_rate", 1e-3)
hidden_layers = tuple(define_config("hidden_layers", (256, 256)))

config("create_environment", num_parallel_environments=1)
config(
    "CausalBcAlgorithm",
    actor_network_cls=partial(ActorNetwork, fc_layer_params=hidden_layers),
    discriminator_network_cls=partial(EncodingNetwork, fc_layer_params=hidden_layers),
    actor_optimizer=Adam(lr=learning_rate),
    discriminator_optimizer=Adam(lr=learning_rate),
)
config(
    "TrainerConfig",
    algorithm_ctor=CausalBcAlgorithm,
    num_iterations=100,
    num_updates_per_train_iter=100,
    mini_batch_length=2,
    mini_batch_size=256,
    whole_replay_buffer_training=False,
    clear_replay_buffer=False,
    rl_train_after_update_steps=2**62,  # Never: what the policy does itself teaches it nothing.
    summary_interval=10,
    evaluate=True,
    num_evals=10,
    async_eval=False,
)
