"""Discrete SAC on CartPole-v1."""

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "SacAlgorithm",
    "env": "CartPole-v1",
    "env_steps": 50_000,
    "bar": 475,
    "reference": "500 (the longest episode)",
}

pre_config({"learning_rate": 1e-3, "hidden_layers": (64, 64)})
import_config("bases/sac.py")

config("create_environment", env_name="CartPole-v1")
config(
    "TrainerConfig", num_env_steps=50_000, replay_buffer_length=50_000, mini_batch_size=128, num_eval_environments=20
)
