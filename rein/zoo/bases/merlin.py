"""MERLIN: a predictor that writes a memory, and an actor that reads it."""

from rein.algorithms.losses import ActorCriticLoss
from rein.algorithms.on_policy import MerlinAlgorithm
from rein.algorithms.on_policy.merlin_codecs import merlin_decoder, merlin_encoder
from rein.config import config, define_config, import_config
from rein.optimizers import AdamTF

ENTRY = {
    "algorithm": "MerlinAlgorithm",
    "actions": "discrete, continuous or mixed",
    "reference": "Wayne et al. 2018, arXiv:1803.10760",
}

import_config("parts/on_policy_run.py")

learning_rate = define_config("learning_rate", 1e-3)
hidden_layers = tuple(define_config("hidden_layers", (64,)))
latent_dim = define_config("latent_dim", 32)
max_gradient_norm = define_config("max_gradient_norm", 10.0)

config("merlin_encoder", hidden_layers=hidden_layers, size=hidden_layers[-1])
config("merlin_decoder", hidden_layers=hidden_layers, loss_weight=1.0)
config("ActorCriticLoss", gamma=0.99, entropy_regularization=0.01)
config(
    "MerlinAlgorithm",
    encoders=merlin_encoder,
    decoders=merlin_decoder,
    latent_dim=latent_dim,
    lstm_size=(64,),
    memory_size=200,
    rl_loss=None,
    optimizer=AdamTF(lr=learning_rate, gradient_clipping=max_gradient_norm, clip_by_global_norm=True),
)
config("MemoryBasedActor", loss_class=ActorCriticLoss)
config("create_environment", num_parallel_environments=16)
config("TrainerConfig", algorithm_ctor=MerlinAlgorithm, unroll_length=20, summary_interval=50)
