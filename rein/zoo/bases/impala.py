"""IMPALA: an actor-critic that learns once from each rollout, whichever policy made it; see `--scheme impala`."""

import torch

from rein.algorithms.losses import VTraceLoss
from rein.algorithms.on_policy import PPOAlgorithm
from rein.config import config, define_config, import_config
from rein.optimizers import Adam
from rein.runtime import LinearScheduler, scheduled

ENTRY = {
    "algorithm": "PPOAlgorithm",
    "actions": "discrete, continuous or mixed",
    "reference": "Espeholt et al. 2018, arXiv:1802.01561",
}

import_config("parts/on_policy_run.py")

learning_rate = define_config("learning_rate", 1e-3)
final_learning_rate = define_config("final_learning_rate", 0.0)
hidden_layers = tuple(define_config("hidden_layers", (64, 64)))
max_gradient_norm = define_config("max_gradient_norm", 0.5)
adam_epsilon = define_config("adam_epsilon", 1e-8)

config("ActorDistributionNetwork", fc_layer_params=hidden_layers, activation=torch.tanh)
config("ValueNetwork", fc_layer_params=hidden_layers, activation=torch.tanh)
config(
    "PPOAlgorithm",
    loss_class=VTraceLoss,
    optimizer=Adam(
        lr=scheduled(learning_rate, lambda lr: LinearScheduler("percent", ((0.0, lr), (1.0, final_learning_rate)))),
        eps=adam_epsilon,
        gradient_clipping=max_gradient_norm,
        clip_by_global_norm=True,
    ),
)
config("VTraceLoss", gamma=0.99, td_loss_weight=0.5, entropy_regularization=0.01)
config(
    "TrainerConfig",
    algorithm_ctor=PPOAlgorithm,
    unroll_length=16,
    mini_batch_length=16,
    mini_batch_size=8,
    num_updates_per_train_iter=1,
    summary_interval=20,
)
