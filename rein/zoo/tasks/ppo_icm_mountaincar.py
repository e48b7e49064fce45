"""PPO with curiosity (ICM) on MountainCar-v0, which PPO alone does not solve."""

from rein.agents import Agent
from rein.algorithms.exploration import ICMAlgorithm
from rein.algorithms.on_policy import PPOAlgorithm
from rein.config import config, import_config
from rein.nest import Nest
from rein.optimizers import Adam

ENTRY = {
    "algorithm": "Agent",
    "env": "MountainCar-v0",
    "env_steps": 500_000,
    "bar": -110,
    "reference": "-110 counts as solved; PPO alone (ppo_mountaincar) reaches -188",
}

import_config("ppo_mountaincar.py")


def curiosity(observation_spec: Nest, action_spec: Nest) -> ICMAlgorithm:
    """Rewards errors of a model of the next observation."""
    return ICMAlgorithm(action_spec, observation_spec, hidden_size=64, optimizer=Adam(lr=1e-3))


config(
    "Agent",
    rl_algorithm_cls=PPOAlgorithm,
    intrinsic_reward_module=curiosity,
    intrinsic_reward_coef=0.06,
)
config("TrainerConfig", algorithm_ctor=Agent, use_rollout_state=True, num_updates_per_train_iter=8)
