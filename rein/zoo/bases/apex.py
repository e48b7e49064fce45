"""Ape-X DQN: dueling double Q-learning of three-step returns from prioritized replay; see `--scheme apex`."""

from functools import partial

from rein.algorithms.losses import TDLoss
from rein.algorithms.off_policy import DqnAlgorithm
from rein.config import config, define_config, import_config
from rein.networks import QNetwork
from rein.ops import element_wise_huber_loss
from rein.optimizers import Adam

ENTRY = {
    "algorithm": "DqnAlgorithm",
    "actions": "one discrete",
    "reference": "Horgan et al. 2018, arXiv:1803.00933",
}

import_config("parts/replay_run.py")

learning_rate = define_config("learning_rate", 5e-4)
hidden_layers = tuple(define_config("hidden_layers", (128, 128)))

config(
    "DqnAlgorithm",
    q_network_cls=partial(QNetwork, fc_layer_params=hidden_layers, dueling=True),
    q_optimizer=Adam(lr=learning_rate, gradient_clipping=10.0, clip_by_global_norm=True),
    target_net_target_action=False,
    num_critic_replicas=1,
    critic_loss_ctor=partial(TDLoss, td_lambda=1.0),
    target_update_tau=0.02,
    calculate_priority=True,
)
config("TDLoss", gamma=0.99, td_error_loss_fn=element_wise_huber_loss)
config("create_environment", num_parallel_environments=4)
config(
    "TrainerConfig",
    algorithm_ctor=DqnAlgorithm,
    unroll_length=4,
    mini_batch_length=4,
    mini_batch_size=64,
    num_updates_per_train_iter=4,
    priority_replay=True,
    priority_replay_alpha=0.6,
    replay_buffer_length=25_000,
)
