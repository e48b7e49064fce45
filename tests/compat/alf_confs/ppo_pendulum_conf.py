from functools import partial

import alf
import torch
from alf.algorithms.data_transformer import ObservationNormalizer, RewardClipping
from alf.environments import suite_gym
from alf.examples import ppo_conf
from alf.networks import ActorDistributionNetwork, StableNormalProjectionNetwork, ValueNetwork
from alf.optimizers import AdamTF

alf.config("create_environment", env_name="Pendulum-v1", env_load_fn=suite_gym.load, num_parallel_environments=4)
alf.config(
    "TrainerConfig",
    data_transformer_ctor=[ObservationNormalizer, RewardClipping],
    num_iterations=3,
    unroll_length=16,
    mini_batch_size=16,
    num_updates_per_train_iter=2,
)
alf.config("data_transformer.RewardClipping", minmax=(-10.0, 10.0))
alf.config("ObservationNormalizer", clipping=5.0)
alf.config(
    "PPOAlgorithm",
    actor_network_ctor=partial(
        ActorDistributionNetwork,
        fc_layer_params=(16,),
        activation=torch.tanh,
        continuous_projection_net_ctor=StableNormalProjectionNetwork,
    ),
    value_network_ctor=partial(ValueNetwork, fc_layer_params=(16,), activation=torch.tanh),
    optimizer=AdamTF(lr=3e-4),
)
alf.config("PPOLoss", gamma=0.95)
