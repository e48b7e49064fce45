"""Implicit Q-learning: finds the best of what recorded data holds, good and bad. Learns from a data set."""

from functools import partial

from rein.algorithms.losses import OneStepTDLoss
from rein.algorithms.offline import IqlAlgorithm
from rein.config import config, define_config, import_config
from rein.networks import ActorDistributionNetwork, CriticNetwork, NormalProjectionNetwork, ValueNetwork
from rein.ops import clipped_exp
from rein.optimizers import Adam

ENTRY = {
    "algorithm": "IqlAlgorithm",
    "actions": "continuous",
    "learns_from": "data",
    "reference": "Kostrikov et al. 2022, arXiv:2110.06169",
}

import_config("parts/offline_run.py")

learning_rate = define_config("learning_rate", 3e-4)
hidden_layers = tuple(define_config("hidden_layers", (256, 256)))

config(
    "NormalProjectionNetwork",
    squash_mean=True,
    state_dependent_std=False,
    std_transform=partial(clipped_exp, value_min=-5.0, value_max=2.0),
)
config(
    "IqlAlgorithm",
    actor_network_cls=partial(
        ActorDistributionNetwork, fc_layer_params=hidden_layers, continuous_projection_net_ctor=NormalProjectionNetwork
    ),
    critic_network_cls=partial(CriticNetwork, joint_fc_layer_params=hidden_layers),
    v_network_cls=partial(ValueNetwork, fc_layer_params=hidden_layers),
    critic_loss_ctor=OneStepTDLoss,
    target_update_tau=0.005,
    expectile=0.7,
    temperature=1 / 3,
    actor_optimizer=Adam(lr=learning_rate),
    critic_optimizer=Adam(lr=learning_rate),
    value_optimizer=Adam(lr=learning_rate),
    one_transition=True,
)
config("OneStepTDLoss", gamma=0.99)
config("TrainerConfig", algorithm_ctor=IqlAlgorithm, mini_batch_length=2, num_iterations=500)
