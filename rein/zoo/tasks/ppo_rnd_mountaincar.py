"""PPO with random network distillation (RND) on MountainCar-v0, which PPO alone does not solve."""

from functools import partial

from rein.agents import Agent
from rein.algorithms.exploration import RNDAlgorithm
from rein.algorithms.on_policy import PPOAlgorithm
from rein.config import config, import_config
from rein.nest import Nest
from rein.networks import EncodingNetwork
from rein.networks.layers import identity
from rein.optimizers import Adam

ENTRY = {
    "algorithm": "Agent",
    "env": "MountainCar-v0",
    "env_steps": 500_000,
    "bar": -110,
    "reference": "-110 counts as solved; PPO alone (ppo_mountaincar) reaches -188",
}

import_config("ppo_mountaincar.py")


def novelty(observation_spec: Nest, action_spec: Nest) -> RNDAlgorithm:
    """Rewards errors of a network that learns what another one gives."""
    network = partial(
        EncodingNetwork, observation_spec, fc_layer_params=(64, 64), last_layer_size=16, last_activation=identity
    )
    return RNDAlgorithm(
        target_net=network(),
        predictor_net=network(),
        reward_adapt_speed=8.0,
        observation_adapt_speed=8.0,
        observation_spec=observation_spec,
        optimizer=Adam(lr=1e-4),
    )


config(
    "Agent",
    rl_algorithm_cls=PPOAlgorithm,
    intrinsic_reward_module=novelty,
    intrinsic_reward_coef=0.03,
)
config("TrainerConfig", algorithm_ctor=Agent)
