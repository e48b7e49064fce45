from functools import partial

import alf
from alf.algorithms.actor_critic_algorithm import ActorCriticAlgorithm
from alf.algorithms.data_transformer import FrameStacker, ImageScaleTransformer, RewardClipping
from alf.environments import suite_gym
from alf.environments.gym_wrappers import DMAtariPreprocessing
from alf.networks import ActorDistributionNetwork, ValueNetwork

alf.config(
    "create_environment",
    env_name="BreakoutNoFrameskip-v4",
    env_load_fn=suite_gym.load,
    num_parallel_environments=2,
)
alf.config("suite_gym.load", max_episode_steps=1000, gym_env_wrappers=[DMAtariPreprocessing])
CONV_LAYER_PARAMS = ((16, 8, 4), (16, 4, 2))
alf.config(
    "ActorCriticAlgorithm",
    actor_network_ctor=partial(ActorDistributionNetwork, conv_layer_params=CONV_LAYER_PARAMS, fc_layer_params=(32,)),
    value_network_ctor=partial(ValueNetwork, conv_layer_params=CONV_LAYER_PARAMS, fc_layer_params=(32,)),
    optimizer=alf.optimizers.Adam(lr=1e-3),
)
alf.config("ImageScaleTransformer", min=0.0)
alf.config(
    "TrainerConfig",
    algorithm_ctor=ActorCriticAlgorithm,
    data_transformer_ctor=[partial(FrameStacker, stack_size=2), ImageScaleTransformer, RewardClipping],
    num_iterations=3,
    unroll_length=4,
    num_checkpoints=1,
)
