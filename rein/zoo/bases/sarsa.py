"""SARSA from replay, with a stochastic policy that climbs the critic."""

from functools import partial

from rein.algorithms.losses import OneStepTDLoss
from rein.algorithms.off_policy import SarsaAlgorithm
from rein.config import config, define_config, import_config
from rein.networks import ActorDistributionNetwork, CriticNetwork, NormalProjectionNetwork
from rein.optimizers import Adam

ENTRY = {
    "algorithm": "SarsaAlgorithm",
    "actions": "continuous",
    "reference": "Sutton & Barto 2018, section 6.4",
}

import_config("parts/replay_run.py")
import_config("parts/squashed_policy.py")

learning_rate = define_config("learning_rate", 1e-3)
hidden_layers = tuple(define_config("hidden_layers", (256, 256)))

config(
    "SarsaAlgorithm",
    actor_network_ctor=partial(
        ActorDistributionNetwork,
        fc_layer_params=hidden_layers,
        continuous_projection_net_ctor=NormalProjectionNetwork,
    ),
    critic_network_ctor=partial(CriticNetwork, joint_fc_layer_params=hidden_layers),
    critic_loss_cls=OneStepTDLoss,
    target_update_tau=0.005,
    target_update_period=1,
    actor_optimizer=Adam(lr=learning_rate),
    critic_optimizer=Adam(lr=learning_rate),
    alpha_optimizer=Adam(lr=learning_rate),
    one_transition=True,
)
config("OneStepTDLoss", gamma=0.99)
config("TrainerConfig", algorithm_ctor=SarsaAlgorithm, mini_batch_size=128)
