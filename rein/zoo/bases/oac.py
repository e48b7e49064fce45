"""Optimistic actor-critic: SAC that explores where its critics disagree."""

from rein.algorithms.losses import OneStepTDLoss
from rein.algorithms.off_policy import OacAlgorithm
from rein.config import config, import_config
from rein.optimizers import Adam

ENTRY = {
    "algorithm": "OacAlgorithm",
    "actions": "continuous",
    "reference": "Ciosek et al. 2019, arXiv:1910.12807",
}

sac = import_config("sac.py")
config("SacAlgorithm", target_entropy=None)  # Not used here; records rest on all that is given.

config(
    "OacAlgorithm",
    actor_network_cls=sac.actor_network,
    critic_network_cls=sac.critic_network,
    critic_loss_ctor=OneStepTDLoss,
    target_entropy=sac.target_entropy,
    target_update_tau=0.005,
    actor_optimizer=Adam(lr=sac.learning_rate),
    critic_optimizer=Adam(lr=sac.learning_rate),
    alpha_optimizer=Adam(lr=sac.learning_rate),
    one_transition=True,
)
config("TrainerConfig", algorithm_ctor=OacAlgorithm)
