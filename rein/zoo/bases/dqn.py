"""Deep Q-learning: epsilon-greedy exploration, one critic and its copy as target."""

from functools import partial

from rein.algorithms.losses import OneStepTDLoss
from rein.algorithms.off_policy import DqnAlgorithm
from rein.config import config, define_config, import_config
from rein.envs.create import is_atari_chosen
from rein.networks import QNetwork
from rein.ops import element_wise_huber_loss
from rein.optimizers import Adam
from rein.runtime import LinearScheduler, scheduled

ENTRY = {
    "algorithm": "DqnAlgorithm",
    "actions": "one discrete",
    "reference": "Mnih et al. 2013, arXiv:1312.5602; double: van Hasselt et al. 2016, arXiv:1509.06461",
}

import_config("parts/replay_run.py")

is_atari = is_atari_chosen()  # If so, as Mnih et al. 2015 have it, with Adam.
learning_rate = define_config("learning_rate", 1e-4 if is_atari else 1e-3)
final_learning_rate = define_config("final_learning_rate", learning_rate)
hidden_layers = tuple(define_config("hidden_layers", (256, 256)))
exploration_fraction = define_config("exploration_fraction", 0.1)
final_epsilon = define_config("final_epsilon", 0.01 if is_atari else 0.05)

config(
    "DqnAlgorithm",
    q_network_cls=partial(QNetwork, fc_layer_params=hidden_layers),
    q_optimizer=Adam(
        lr=scheduled(learning_rate, lambda lr: LinearScheduler("percent", ((0.0, lr), (1.0, final_learning_rate)))),
        gradient_clipping=10.0,
        clip_by_global_norm=True,
    ),
    rollout_epsilon_greedy=LinearScheduler("percent", ((0.0, 1.0), (exploration_fraction, final_epsilon))),
    num_critic_replicas=1,
    critic_loss_ctor=OneStepTDLoss,
    target_update_tau=1.0,
    target_update_period=1000 if is_atari else 250,
    one_transition=True,
)
config("OneStepTDLoss", gamma=0.99, td_error_loss_fn=element_wise_huber_loss)
config("TrainerConfig", algorithm_ctor=DqnAlgorithm, unroll_length=4, mini_batch_size=32 if is_atari else 128)
