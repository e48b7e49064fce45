"""R2D2: double Q-learning with a memory, from prioritized sequences with stored states and burn-in; see `--scheme r2d2`."""

from functools import partial

from rein.algorithms.losses import TDLoss
from rein.algorithms.off_policy import DqnAlgorithm
from rein.config import config, define_config, import_config
from rein.networks import QRNNNetwork
from rein.ops import element_wise_huber_loss
from rein.optimizers import Adam

ENTRY = {
    "algorithm": "DqnAlgorithm",
    "actions": "one discrete",
    "reference": "Kapturowski et al. 2019, openreview.net/forum?id=r1lyTjAqYX",
}

import_config("parts/replay_run.py")

learning_rate = define_config("learning_rate", 1e-3)
hidden_layers = tuple(define_config("hidden_layers", (64,)))
memory_size = define_config("memory_size", 64)

config(
    "DqnAlgorithm",
    q_network_cls=partial(QRNNNetwork, fc_layer_params=hidden_layers, lstm_hidden_size=memory_size),
    q_optimizer=Adam(lr=learning_rate, gradient_clipping=10.0, clip_by_global_norm=True),
    target_net_target_action=False,
    num_critic_replicas=1,
    critic_loss_ctor=partial(TDLoss, td_lambda=0.9),
    target_update_tau=0.02,
    calculate_priority=True,
)
config("TDLoss", gamma=0.99, td_error_loss_fn=element_wise_huber_loss)
config("create_environment", num_parallel_environments=8)
config(
    "TrainerConfig",
    algorithm_ctor=DqnAlgorithm,
    unroll_length=8,
    mini_batch_length=24,
    burn_in_steps=8,
    mini_batch_size=32,
    num_updates_per_train_iter=4,
    use_rollout_state=True,
    priority_replay=True,
    priority_replay_alpha=0.9,
    replay_buffer_length=10_000,
)
