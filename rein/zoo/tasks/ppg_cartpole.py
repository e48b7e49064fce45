"""PPG on CartPole-v1."""

import torch

from rein.algorithms.on_policy import PPGAlgorithm, PPGAuxOptions
from rein.config import config, import_config, pre_config
from rein.optimizers import Adam

ENTRY = {
    "algorithm": "PPGAlgorithm",
    "env": "CartPole-v1",
    "env_steps": 100_000,
    "bar": 475,
    "reference": "500 (TRPO, RL Baselines3 Zoo)",
}

pre_config({"learning_rate": 1e-3, "final_learning_rate": 0.0, "is_orthogonal": False})
import_config("bases/ppo.py")

config("create_environment", env_name="CartPole-v1")
config("EncodingNetwork", fc_layer_params=(64, 64), activation=torch.tanh)
config("PPOLoss", gamma=0.98, td_lambda=0.8)
config(
    "PPGAlgorithm",
    aux_options=PPGAuxOptions(interval=16, mini_batch_size=16, num_updates_per_train_iter=3),
    policy_optimizer=Adam(lr=5e-4, gradient_clipping=0.5, clip_by_global_norm=True),
    aux_optimizer=Adam(lr=3e-4, gradient_clipping=0.5, clip_by_global_norm=True),
)
config(
    "TrainerConfig",
    algorithm_ctor=PPGAlgorithm,
    num_env_steps=100_000,
    unroll_length=32,
    mini_batch_size=256,
    num_updates_per_train_iter=10,
    num_eval_environments=20,
)
