"""Temporally abstract actor-critic: decides at every step whether to go on with the previous action."""

from rein.algorithms.off_policy import TaacAlgorithm, TAACTDLoss
from rein.config import config, import_config
from rein.optimizers import Adam

ENTRY = {
    "algorithm": "TaacAlgorithm",
    "actions": "one continuous vector",
    "reference": "Yu et al. 2021, arXiv:2104.06521",
}

sac = import_config("sac.py")
config("SacAlgorithm", target_entropy=None)  # Not used here; records rest on all that is given.

config(
    "TaacAlgorithmBase",
    actor_network_cls=sac.actor_network,
    critic_network_cls=sac.critic_network,
    critic_loss_ctor=TAACTDLoss,
    target_update_tau=0.005,
    actor_optimizer=Adam(lr=sac.learning_rate),
    critic_optimizer=Adam(lr=sac.learning_rate),
    alpha_optimizer=Adam(lr=sac.learning_rate),
)
config("TAACTDLoss", gamma=0.99)
config(
    "TrainerConfig",
    algorithm_ctor=TaacAlgorithm,
    initial_collect_steps=1000,
    mini_batch_length=5,
    mini_batch_size=128,
)
