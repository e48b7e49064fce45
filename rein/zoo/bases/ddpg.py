"""Deep deterministic policy gradient: one update per step, Ornstein-Uhlenbeck exploration."""

from functools import partial

from rein.algorithms.losses import OneStepTDLoss
from rein.algorithms.off_policy import DdpgAlgorithm
from rein.config import config, define_config, import_config
from rein.networks import ActorNetwork, CriticNetwork
from rein.optimizers import Adam
from rein.runtime import StepScheduler

ENTRY = {
    "algorithm": "DdpgAlgorithm",
    "actions": "continuous",
    "reference": "Lillicrap et al. 2016, arXiv:1509.02971",
}

import_config("parts/replay_run.py")

learning_rate = define_config("learning_rate", 1e-3)
hidden_layers = tuple(define_config("hidden_layers", (256, 256)))
random_steps = define_config("random_steps", 1000)

config(
    "DdpgAlgorithm",
    actor_network_ctor=partial(ActorNetwork, fc_layer_params=hidden_layers),
    critic_network_ctor=partial(CriticNetwork, joint_fc_layer_params=hidden_layers),
    critic_loss_ctor=OneStepTDLoss,
    target_update_tau=0.005,
    rollout_random_action=StepScheduler("env_steps", ((random_steps, 1.0), (random_steps + 1, 0.0))),
    actor_optimizer=Adam(lr=learning_rate),
    critic_optimizer=Adam(lr=learning_rate),
    one_transition=True,
)
config("OneStepTDLoss", gamma=0.99)
config("TrainerConfig", algorithm_ctor=DdpgAlgorithm, mini_batch_size=256)
