"""Discrete SAC on LunarLander-v3."""

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "SacAlgorithm",
    "env": "LunarLander-v3",
    "env_steps": 200_000,
    "bar": 180,
    "reference": "195",
}

pre_config({"learning_rate": 5e-4, "hidden_layers": (128, 128)})
import_config("bases/sac.py")

config("create_environment", env_name="LunarLander-v3", num_parallel_environments=4, backend="sync")
config(
    "TrainerConfig",
    num_env_steps=200_000,
    replay_buffer_length=50_000,
    unroll_length=4,
    num_updates_per_train_iter=8,
    mini_batch_size=128,
    num_eval_environments=20,
)
