"""Soft actor-critic with critics that learn quantiles of the return."""

from rein.algorithms.losses import OneStepTDQRLoss
from rein.algorithms.off_policy import QrsacAlgorithm
from rein.config import config, define_config, import_config
from rein.optimizers import Adam

ENTRY = {
    "algorithm": "QrsacAlgorithm",
    "actions": "continuous",
    "reference": "Dabney et al. 2018, arXiv:1710.10044, on Haarnoja et al. 2018, arXiv:1812.05905",
}

sac = import_config("sac.py")
config("SacAlgorithm", target_entropy=None)  # Not used here; records rest on all that is given.

config(
    "QrsacAlgorithm",
    actor_network_cls=sac.actor_network,
    critic_network_cls=sac.critic_network,
    use_entropy_reward=True,
    critic_loss_ctor=OneStepTDQRLoss,
    target_entropy=sac.target_entropy,
    target_update_tau=0.005,
    actor_optimizer=Adam(lr=sac.learning_rate),
    critic_optimizer=Adam(lr=sac.learning_rate),
    alpha_optimizer=Adam(lr=sac.learning_rate),
    one_transition=True,
)
config("OneStepTDQRLoss", num_quantiles=define_config("num_quantiles", 25), gamma=0.99)
config("TrainerConfig", algorithm_ctor=QrsacAlgorithm)
