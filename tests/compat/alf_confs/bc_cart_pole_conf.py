import alf
from alf.algorithms.bc_algorithm import BcAlgorithm
from alf.networks import ActorDistributionNetwork

alf.config("create_environment", env_name="CartPole-v1", num_parallel_environments=1)
alf.config("ActorDistributionNetwork", fc_layer_params=(16,))
alf.config("BcAlgorithm", actor_network_cls=ActorDistributionNetwork, actor_optimizer=alf.optimizers.Adam(lr=1e-3))
alf.config(
    "TrainerConfig",
    algorithm_ctor=BcAlgorithm,
    num_iterations=3,
    offline_buffer_dir="cart_pole.data",
    rl_train_after_update_steps=10000000,
    mini_batch_length=1,
    mini_batch_size=8,
    num_updates_per_train_iter=2,
    whole_replay_buffer_training=False,
    clear_replay_buffer=False,
    num_checkpoints=1,
)
