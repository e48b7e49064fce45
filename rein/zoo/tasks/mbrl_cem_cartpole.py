"""MBRL with CEM on CartPole with a continuous force, its reward known."""

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "MbrlAlgorithm",
    "env": "rein/CartPoleContinuous-v0",
    "env_steps": 3_000,
    "bar": 180,
    "reference": "200 is just above the best there is",
}

pre_config({"hidden_layers": (32, 32), "reward": "cartpole", "population": 100, "iterations": 4, "horizon": 20})
import_config("bases/mbrl_cem.py")

config("create_environment", env_name="rein/CartPoleContinuous-v0", num_parallel_environments=10)
# Planning for an evaluation takes as long as planning for training: there is one at the end, by `rein evaluate`.
config("TrainerConfig", num_env_steps=3_000, replay_buffer_length=1_000, num_updates_per_train_iter=10, evaluate=False)
