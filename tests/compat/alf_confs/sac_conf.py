from functools import partial

import alf
from alf.algorithms.sac_algorithm import SacAlgorithm
from alf.algorithms.one_step_loss import OneStepTDLoss
from alf.networks import ActorDistributionNetwork, CriticNetwork, NormalProjectionNetwork
from alf.utils.dist_utils import calc_default_target_entropy
from alf.utils.math_ops import clipped_exp

fc_layers = (16, 16)
actor_network_cls = partial(
    ActorDistributionNetwork,
    fc_layer_params=fc_layers,
    continuous_projection_net_ctor=partial(
        NormalProjectionNetwork, state_dependent_std=True, scale_distribution=True, std_transform=clipped_exp
    ),
)
critic_network_cls = partial(CriticNetwork, joint_fc_layer_params=fc_layers)

alf.config("calc_default_target_entropy", min_prob=0.184)
alf.config("clipped_exp", clip_value_min=-10, clip_value_max=2)
alf.config(
    "SacAlgorithm",
    actor_network_cls=actor_network_cls,
    critic_network_cls=critic_network_cls,
    target_entropy=calc_default_target_entropy,
    target_update_tau=0.005,
    critic_loss_ctor=OneStepTDLoss,
    actor_optimizer=alf.optimizers.Adam(lr=5e-4),
    critic_optimizer=alf.optimizers.Adam(lr=5e-4),
    alpha_optimizer=alf.optimizers.Adam(lr=5e-4),
)
alf.config("OneStepTDLoss", td_error_loss_fn=alf.utils.losses.element_wise_squared_loss, gamma=0.99)
alf.config(
    "TrainerConfig",
    algorithm_ctor=SacAlgorithm,
    num_iterations=3,
    initial_collect_steps=16,
    unroll_length=1,
    mini_batch_length=2,
    mini_batch_size=16,
    num_updates_per_train_iter=1,
    whole_replay_buffer_training=False,
    clear_replay_buffer=False,
    replay_buffer_length=1000,
    num_checkpoints=1,
)
