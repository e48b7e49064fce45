"""Multi-dimensional Q-learning: continuous actions in bins, chosen one dimension after another."""

from rein.algorithms.losses import OneStepTDLoss
from rein.algorithms.off_policy import MdqAlgorithm
from rein.config import config, define_config
from rein.networks import MdqCriticNetwork
from rein.optimizers import Adam

ENTRY = {
    "algorithm": "MdqAlgorithm",
    "actions": "one continuous vector",
    "reference": "the module `rein.algorithms.off_policy.mdq`",
}

learning_rate = define_config("learning_rate", 1e-3)
hidden_size = define_config("hidden_size", 256)
num_bins = define_config("num_bins", 11)

layers = (hidden_size,)

config("create_environment", num_parallel_environments=1)
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
config(
    "TrainerConfig",
    algorithm_ctor=MdqAlgorithm,
    num_iterations=0,
    num_env_steps=1_000_000,
    unroll_length=1,
    initial_collect_steps=1000,
    mini_batch_length=2,
    mini_batch_size=128,
    num_updates_per_train_iter=1,
    whole_replay_buffer_training=False,
    clear_replay_buffer=False,
    replay_buffer_length=1_000_000,
    summary_interval=1000,
    evaluate=True,
    num_evals=10,
    async_eval=False,
)
