"""Multi-dimensional Q-learning: continuous actions in bins, chosen one dimension after another."""

from rein.algorithms.losses import OneStepTDLoss
from rein.algorithms.off_policy import MdqAlgorithm
from rein.config import config, define_config, import_config
from rein.networks import MdqCriticNetwork
from rein.optimizers import Adam

ENTRY = {
    "algorithm": "MdqAlgorithm",
    "actions": "one continuous vector",
    "reference": "the module `rein.algorithms.off_policy.mdq`",
}

import_config("parts/replay_run.py")

learning_rate = define_config("learning_rate", 1e-3)
hidden_size = define_config("hidden_size", 256)
num_bins = define_config("num_bins", 11)

layers = tuple(define_config("hidden_layers", (hidden_size,)))

config("ActionQuantizer", action_bins=num_bins)
config(
    "MdqCriticNetwork",
    obs_encoding_layer_params=layers,
    mid_encoding_layer_params=layers,
    post_encoding_layer_params=layers,
    free_form_fc_layer_params=layers * 2,
)
config(
    "MdqAlgorithm",
    critic_network=MdqCriticNetwork,
    critic_loss_ctor=OneStepTDLoss,
    target_update_tau=0.005,
    critic_optimizer=Adam(lr=learning_rate),
    alpha_optimizer=Adam(lr=learning_rate),
    one_transition=True,
)
config("OneStepTDLoss", gamma=0.99)
config("TrainerConfig", algorithm_ctor=MdqAlgorithm, mini_batch_size=128)
