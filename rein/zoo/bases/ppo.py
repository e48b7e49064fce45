"""Proximal policy optimization: clipped surrogate, several passes over each rollout."""

import math
from functools import partial

import torch
from torch import nn

from rein.algorithms.losses import PPOLoss
from rein.algorithms.on_policy import PPOAlgorithm
from rein.config import config, define_config, import_config
from rein.envs.create import is_atari_chosen
from rein.optimizers import Adam
from rein.runtime import LinearScheduler, scheduled

ENTRY = {
    "algorithm": "PPOAlgorithm",
    "actions": "discrete, continuous or mixed",
    "reference": "Schulman et al. 2017, arXiv:1707.06347",
}

import_config("parts/on_policy_run.py")
import_config("parts/gaussian_policy.py")

is_atari = is_atari_chosen()  # If so, as in the paper, table 5, but for one pass more.
learning_rate = define_config("learning_rate", 3e-4)
final_learning_rate = define_config("final_learning_rate", 0.0 if is_atari else learning_rate)
# With layers of tanh behind the convolutions values became the same in all states of Pong.
hidden_layers = tuple(define_config("hidden_layers", () if is_atari else (64, 64)))
max_gradient_norm = define_config("max_gradient_norm", 0.5)
# Without, one seed of five never left -500 on Acrobot.
is_orthogonal = define_config("is_orthogonal", not is_atari)

config("ActorDistributionNetwork", fc_layer_params=hidden_layers, activation=torch.tanh)
config("ValueNetwork", fc_layer_params=hidden_layers, activation=torch.tanh)
if is_orthogonal:
    orthogonal = partial(nn.init.orthogonal_, gain=math.sqrt(2.0))
    config("ActorDistributionNetwork", kernel_initializer=orthogonal)
    config("ValueNetwork", kernel_initializer=orthogonal)
config(
    "PPOAlgorithm",
    loss_class=PPOLoss,
    optimizer=Adam(
        lr=scheduled(learning_rate, lambda lr: LinearScheduler("percent", ((0.0, lr), (1.0, final_learning_rate)))),
        gradient_clipping=max_gradient_norm,
        clip_by_global_norm=True,
    ),
)
config("PPOLoss", gamma=0.99, td_lambda=0.95, importance_ratio_clipping=0.1 if is_atari else 0.2, td_loss_weight=0.5)
config(
    "TrainerConfig",
    algorithm_ctor=PPOAlgorithm,
    unroll_length=128,
    mini_batch_length=1,
    mini_batch_size=256 if is_atari else 64,
    num_updates_per_train_iter=4 if is_atari else 10,
    summary_interval=5,
)
if is_atari:
    config("PPOLoss", entropy_regularization=0.01)
