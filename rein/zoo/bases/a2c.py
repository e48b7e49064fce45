"""Advantage actor-critic: one update from each short rollout."""

import torch

from rein.algorithms.losses import ActorCriticLoss
from rein.algorithms.on_policy import ActorCriticAlgorithm
from rein.config import config, define_config, import_config
from rein.envs.create import is_atari_chosen
from rein.optimizers import RMSprop
from rein.runtime import LinearScheduler, scheduled

ENTRY = {
    "algorithm": "ActorCriticAlgorithm",
    "actions": "discrete, continuous or mixed",
    "reference": "Mnih et al. 2016, arXiv:1602.01783",
}

import_config("parts/on_policy_run.py")

is_atari = is_atari_chosen()
learning_rate = define_config("learning_rate", 7e-4)
final_learning_rate = define_config("final_learning_rate", 0.0 if is_atari else None)
# None: so much of the first is left. Where nothing was, CartPole was not learnt after 50,000 steps.
SHARE_LEFT = 0.36
hidden_layers = tuple(define_config("hidden_layers", (64, 64)))
max_gradient_norm = define_config("max_gradient_norm", 0.5)


def falling(rate: float) -> LinearScheduler:
    """From `rate` to the final one, along the run."""
    final = SHARE_LEFT * rate if final_learning_rate is None else final_learning_rate
    return LinearScheduler("percent", ((0.0, rate), (1.0, final)))


config("ActorDistributionNetwork", fc_layer_params=hidden_layers, activation=torch.tanh)
config("ValueNetwork", fc_layer_params=hidden_layers, activation=torch.tanh)
config(
    "ActorCriticAlgorithm",
    loss_class=ActorCriticLoss,
    optimizer=RMSprop(
        lr=scheduled(learning_rate, falling),
        alpha=0.99,
        eps=1e-5,
        gradient_clipping=max_gradient_norm,
        clip_by_global_norm=True,
    ),
)
config("ActorCriticLoss", gamma=0.99, td_loss_weight=0.5)
config("TrainerConfig", algorithm_ctor=ActorCriticAlgorithm, unroll_length=5, summary_interval=100)

if is_atari:
    config("ActorCriticLoss", entropy_regularization=0.01)
else:
    # An update for every five steps: with eight worlds there would be an eighth of them in the same budget.
    config("create_environment", num_parallel_environments=1)
