"""Twin delayed DDPG: lowest of two critics, smoothed targets, an update of the actor for every two of the critics."""

from functools import partial

from rein.algorithms.losses import OneStepTDLoss
from rein.algorithms.off_policy import Td3Algorithm
from rein.config import config, define_config, import_config
from rein.networks import ActorNetwork, CriticNetwork
from rein.optimizers import Adam
from rein.runtime import StepScheduler

ENTRY = {
    "algorithm": "Td3Algorithm",
    "actions": "continuous",
    "reference": "Fujimoto et al. 2018, arXiv:1802.09477",
}

import_config("parts/replay_run.py")

learning_rate = define_config("learning_rate", 1e-3)
hidden_layers = tuple(define_config("hidden_layers", (256, 256)))
random_steps = define_config("random_steps", 1000)

config(
    "Td3Algorithm",
    actor_network_ctor=partial(ActorNetwork, fc_layer_params=hidden_layers),
    critic_network_ctor=partial(CriticNetwork, joint_fc_layer_params=hidden_layers),
    critic_loss_ctor=OneStepTDLoss,
    rollout_random_action=StepScheduler("env_steps", ((random_steps, 1.0), (random_steps + 1, 0.0))),
    actor_optimizer=Adam(lr=learning_rate),
    critic_optimizer=Adam(lr=learning_rate),
    one_transition=True,
)
config("OneStepTDLoss", gamma=0.99)
config("TrainerConfig", algorithm_ctor=Td3Algorithm, mini_batch_size=256)
