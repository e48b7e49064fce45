"""A model of the dynamics that learns from pairs of steps, and a learnt reward unless a known one is chosen."""

from functools import partial

import torch.nn.functional as F

from rein.algorithms.model_based import (
    DeterministicDynamicsAlgorithm,
    FixedRewardFunction,
    LearnedRewardFunction,
    MbrlAlgorithm,
    StochasticDynamicsAlgorithm,
    cartpole_reward,
    pendulum_reward,
)
from rein.config import config, define_config, import_config
from rein.networks import DynamicsNetwork
from rein.optimizers import Adam

import_config("parts/replay_run.py")

learning_rate = define_config("learning_rate", 1e-3)
hidden_layers = tuple(define_config("hidden_layers", (64, 64)))
num_replicas = define_config("num_replicas", 1)
stochastic = define_config("stochastic", False)
reward = define_config("reward", "learnt")

KNOWN = {"pendulum": pendulum_reward, "cartpole": cartpole_reward}
if reward not in ("learnt", *KNOWN):
    raise ValueError(f"reward is {reward!r}: choose 'learnt', or one that is known: {', '.join(KNOWN)}")

network = partial(DynamicsNetwork, joint_fc_layer_params=hidden_layers, activation=F.silu)
dynamics = (
    partial(StochasticDynamicsAlgorithm, dynamics_network_ctor=partial(network, prob=True))
    if stochastic
    else partial(DeterministicDynamicsAlgorithm, dynamics_network_ctor=network)
)
config(
    "MbrlAlgorithm",
    dynamics_module_ctor=partial(dynamics, num_replicas=num_replicas),
    reward_module=partial(LearnedRewardFunction, reward_network_ctor=network)
    if reward == "learnt"
    else FixedRewardFunction(KNOWN[reward]),
    dynamics_optimizer=Adam(lr=learning_rate),
    reward_optimizer=Adam(lr=learning_rate),
)
config(
    "TrainerConfig",
    algorithm_ctor=MbrlAlgorithm,
    initial_collect_steps=400,
    mini_batch_size=256,
    num_updates_per_train_iter=2,
    num_evals=1,
    num_eval_episodes=5,
    num_eval_environments=5,
)
