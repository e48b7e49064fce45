"""Soft actor-critic: one update per step, twin critics, tuned temperature."""

from functools import partial

from rein.algorithms.losses import OneStepTDLoss
from rein.algorithms.off_policy import SacAlgorithm
from rein.config import config, define_config, import_config
from rein.distributions import calc_target_entropy_by_count
from rein.envs.create import is_atari_chosen
from rein.networks import ActorDistributionNetwork, CriticNetwork, NormalProjectionNetwork, QNetwork
from rein.optimizers import Adam

ENTRY = {
    "algorithm": "SacAlgorithm",
    "actions": "continuous, one discrete, or both",
    "reference": "Haarnoja et al. 2018, arXiv:1812.05905",
}

import_config("parts/replay_run.py")
import_config("parts/squashed_policy.py")

is_atari = is_atari_chosen()  # If so, batches and updates are those of Christodoulou 2019, arXiv:1910.07207.
learning_rate = define_config("learning_rate", 3e-4)
hidden_layers = tuple(define_config("hidden_layers", (256, 256)))
target_entropy = calc_target_entropy_by_count

actor_network = partial(
    ActorDistributionNetwork, fc_layer_params=hidden_layers, continuous_projection_net_ctor=NormalProjectionNetwork
)
critic_network = partial(CriticNetwork, joint_fc_layer_params=hidden_layers)
config(
    "SacAlgorithm",
    actor_network_cls=actor_network,
    critic_network_cls=critic_network,
    q_network_cls=partial(QNetwork, fc_layer_params=hidden_layers),
    critic_loss_ctor=OneStepTDLoss,
    target_entropy=target_entropy,
    target_update_tau=0.005,
    actor_optimizer=Adam(lr=learning_rate),
    critic_optimizer=Adam(lr=learning_rate),
    alpha_optimizer=Adam(lr=learning_rate),
    one_transition=True,
)
config("OneStepTDLoss", gamma=0.99)
config(
    "TrainerConfig",
    algorithm_ctor=SacAlgorithm,
    initial_collect_steps=1000 if is_atari else 100,
    unroll_length=4 if is_atari else 1,
    mini_batch_size=64 if is_atari else 256,
)
