from functools import partial

import alf
from alf.algorithms.ddpg_algorithm import DdpgAlgorithm
from alf.algorithms.one_step_loss import OneStepTDLoss
from alf.environments.gym_wrappers import FrameSkip
from alf.environments.suite_gym import load
from alf.networks import ActorNetwork, CriticNetwork
from alf.utils.schedulers import CyclicalScheduler, LinearScheduler

alf.config(
    "create_environment", env_name="Pendulum-v1", env_load_fn=load, num_parallel_environments=2, start_serially=True
)
alf.config("suite_gym.load", gym_env_wrappers=(partial(FrameSkip, skip=2),), max_episode_steps=100)
alf.config("ActorNetwork", fc_layer_params=(16, 16))
alf.config("CriticNetwork", joint_fc_layer_params=(16, 16))
alf.config(
    "DdpgAlgorithm",
    actor_network_ctor=ActorNetwork,
    critic_network_ctor=CriticNetwork,
    critic_loss_ctor=OneStepTDLoss,
    actor_optimizer=alf.optimizers.Adam(
        lr=CyclicalScheduler("iterations", base_lr=1e-4, bound_lr=1e-3, half_cycle_size=5)
    ),
    critic_optimizer=alf.optimizers.AdamW(lr=LinearScheduler("percent", [(0.0, 1e-3), (1.0, 1e-4)])),
    rollout_random_action=0.1,
    target_update_period=5,
)
alf.config(
    "TrainerConfig",
    algorithm_ctor=DdpgAlgorithm,
    num_iterations=3,
    initial_collect_steps=16,
    unroll_length=4,
    mini_batch_length=2,
    mini_batch_size=8,
    whole_replay_buffer_training=False,
    clear_replay_buffer=False,
    num_checkpoints=1,
)
