"""Maximum a posteriori policy optimisation: candidates weighted by value, and a policy that follows within limits."""

from functools import partial

from rein.algorithms.losses import OneStepTDLoss
from rein.algorithms.off_policy import MpoAlgorithm
from rein.config import config, define_config, import_config
from rein.networks import ActorDistributionNetwork, CriticNetwork, QNetwork, StableNormalProjectionNetwork
from rein.optimizers import Adam

ENTRY = {
    "algorithm": "MpoAlgorithm",
    "actions": "continuous, or one discrete",
    "reference": "Abdolmaleki et al. 2018, arXiv:1806.06920",
}

import_config("parts/replay_run.py")

learning_rate = define_config("learning_rate", 1e-3)
actor_learning_rate = define_config("actor_learning_rate", 5e-4)
hidden_layers = tuple(define_config("hidden_layers", (256, 256)))

config(
    "StableNormalProjectionNetwork",
    squash_mean=False,
    state_dependent_std=True,
    scale_distribution=True,
    init_std=0.7,
    min_std=1e-3,
    max_std=2.0,
)
config(
    "MpoAlgorithm",
    actor_network_ctor=partial(
        ActorDistributionNetwork,
        fc_layer_params=hidden_layers,
        continuous_projection_net_ctor=StableNormalProjectionNetwork,
    ),
    critic_network_ctor=partial(CriticNetwork, joint_fc_layer_params=hidden_layers),
    q_network_ctor=partial(QNetwork, fc_layer_params=hidden_layers),
    critic_loss_ctor=OneStepTDLoss,
    sample_action_num=20,
    mstep_iterations=2,
    actor_optimizer=Adam(lr=actor_learning_rate),
    critic_optimizer=Adam(lr=learning_rate),
)
config("OneStepTDLoss", gamma=0.99)
config("TrainerConfig", algorithm_ctor=MpoAlgorithm, mini_batch_size=64)
