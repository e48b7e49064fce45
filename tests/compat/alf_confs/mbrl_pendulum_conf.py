from functools import partial

import alf
from alf.algorithms.dynamics_learning_algorithm import DeterministicDynamicsAlgorithm
from alf.algorithms.mbrl_algorithm import MbrlAlgorithm
from alf.algorithms.planning_algorithm import RandomShootingAlgorithm
from alf.algorithms.reward_learning_algorithm import FixedRewardFunction
from alf.networks import DynamicsNetwork
from alf.utils.dyna_utils import pendulum_reward

alf.config("create_environment", env_name="Pendulum-v1", num_parallel_environments=1)
alf.config(
    "MbrlAlgorithm",
    dynamics_module_ctor=partial(
        DeterministicDynamicsAlgorithm,
        dynamics_network_ctor=partial(DynamicsNetwork, joint_fc_layer_params=(16,)),
    ),
    reward_module=FixedRewardFunction(pendulum_reward),
    planner_module_ctor=partial(RandomShootingAlgorithm, population_size=16, planning_horizon=3),
    dynamics_optimizer=alf.optimizers.Adam(lr=1e-3),
)
alf.config(
    "TrainerConfig",
    algorithm_ctor=MbrlAlgorithm,
    num_iterations=3,
    initial_collect_steps=8,
    unroll_length=10,
    mini_batch_length=2,
    mini_batch_size=8,
    num_updates_per_train_iter=1,
    whole_replay_buffer_training=False,
    clear_replay_buffer=False,
    num_checkpoints=1,
)
