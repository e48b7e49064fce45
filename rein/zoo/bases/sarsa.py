"""SARSA from replay, with a stochastic policy that climbs the critic."""

from functools import partial

from rein.algorithms.losses import OneStepTDLoss
from rein.algorithms.off_policy import SarsaAlgorithm
from rein.config import config, define_config
from rein.networks import ActorDistributionNetwork, CriticNetwork, NormalProjectionNetwork
from rein.optimizers import Adam

ENTRY = {
    "algorithm": "SarsaAlgorithm",
    "actions": "continuous",
    "reference": "Sutton & Barto 2018, section 6.4",
}

learning_rate = define_config("learning_rate", 1e-3)
hidden_layers = tuple(define_config("hidden_layers", (256, 256)))

config("create_environment", num_parallel_environments=1)
config(
    "NormalProjectionNetwork",
    squash_mean=False,
    state_dependent_std=True,
    scale_distribution=True,
    std_bias_initializer_value=0.5413,
)
config(
    "SarsaAlgorithm",
    actor_network_ctor=partial(
        ActorDistributionNetwork,
        fc_layer_params=hidden_layers,
        continuous_projection_net_ctor=NormalProjectionNetwork,
    ),
    critic_network_ctor=partial(CriticNetwork, joint_fc_layer_params=hidden_layers),
    critic_loss_cls=OneStepTDLoss,
    target_update_tau=0.005,
    target_update_period=1,
    actor_optimizer=Adam(lr=learning_rate),
    critic_optimizer=Adam(lr=learning_rate),
    alpha_optimizer=Adam(lr=learning_rate),
    one_transition=True,
)
config("OneStepTDLoss", gamma=0.99)
config(
    "TrainerConfig",
    algorithm_ctor=SarsaAlgorithm,
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
