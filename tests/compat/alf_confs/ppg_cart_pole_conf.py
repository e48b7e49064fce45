import alf
import torch
from alf.algorithms.ppg_algorithm import PPGAlgorithm, PPGAuxOptions
from alf.algorithms.ppo_loss import PPOLoss
from alf.networks import EncodingNetwork

alf.config("create_environment", env_name="CartPole-v1", num_parallel_environments=4)
alf.config("EncodingNetwork", fc_layer_params=(16,), activation=torch.tanh)
alf.config("PPOLoss", gamma=0.98)
alf.config("PPGAuxPhaseLoss", policy_kl_loss_weight=1.0)
alf.config("DisjointPolicyValueNetwork", is_sharing_encoder=False)
alf.config(
    "PPGAlgorithm",
    loss_class=PPOLoss,
    encoding_network_ctor=EncodingNetwork,
    policy_optimizer=alf.optimizers.Adam(lr=1e-3),
    aux_optimizer=alf.optimizers.Adam(lr=1e-3),
    aux_options=PPGAuxOptions(
        enabled=True, interval=2, mini_batch_length=None, mini_batch_size=4, num_updates_per_train_iter=1
    ),
)
alf.config(
    "TrainerConfig",
    algorithm_ctor=PPGAlgorithm,
    num_iterations=3,
    unroll_length=16,
    mini_batch_length=1,
    mini_batch_size=16,
    num_updates_per_train_iter=2,
    num_checkpoints=1,
)
