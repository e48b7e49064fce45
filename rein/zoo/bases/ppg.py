"""Phasic policy gradient: PPO whose encoder also learns values, in phases of their own."""

import torch

from rein.algorithms.on_policy import PPGAlgorithm, PPGAuxOptions
from rein.config import config, define_config, import_config
from rein.optimizers import Adam

ENTRY = {
    "algorithm": "PPGAlgorithm",
    "actions": "discrete, continuous or mixed",
    "reference": "Cobbe et al. 2021, arXiv:2009.04416",
}

ppo = import_config("ppo.py")
aux_interval = define_config("aux_interval", 16)

config("EncodingNetwork", fc_layer_params=ppo.hidden_layers, activation=torch.tanh)
config(
    "PPGAlgorithm",
    aux_options=PPGAuxOptions(interval=aux_interval, mini_batch_size=16, num_updates_per_train_iter=3),
    policy_optimizer=Adam(lr=ppo.learning_rate, gradient_clipping=ppo.max_gradient_norm, clip_by_global_norm=True),
    aux_optimizer=Adam(lr=ppo.learning_rate, gradient_clipping=ppo.max_gradient_norm, clip_by_global_norm=True),
)
config("TrainerConfig", algorithm_ctor=PPGAlgorithm)
