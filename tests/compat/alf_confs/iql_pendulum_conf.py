from functools import partial

import alf
from alf.algorithms.iql_algorithm import IqlAlgorithm
from alf.algorithms.one_step_loss import OneStepTDLoss
from alf.networks import ActorDistributionNetwork, CriticNetwork, ValueNetwork

alf.config("create_environment", env_name="Pendulum-v1", num_parallel_environments=1)
alf.config(
    "IqlAlgorithm",
    actor_network_cls=partial(ActorDistributionNetwork, fc_layer_params=(16,)),
    critic_network_cls=partial(CriticNetwork, joint_fc_layer_params=(16,)),
    v_network_cls=partial(ValueNetwork, fc_layer_params=(16,)),
    critic_loss_ctor=OneStepTDLoss,
    expectile=0.8,
    temperature=0.1,
    actor_optimizer=alf.optimizers.Adam(lr=1e-3),
    critic_optimizer=alf.optimizers.Adam(lr=1e-3),
    value_optimizer=alf.optimizers.Adam(lr=1e-3),
)
alf.config(
    "TrainerConfig",
    algorithm_ctor=IqlAlgorithm,
    num_iterations=3,
    offline_buffer_dir="pendulum.data",
    rl_train_after_update_steps=10000000,
    mini_batch_length=2,
    mini_batch_size=8,
    num_updates_per_train_iter=2,
    whole_replay_buffer_training=False,
    clear_replay_buffer=False,
    num_checkpoints=1,
)
