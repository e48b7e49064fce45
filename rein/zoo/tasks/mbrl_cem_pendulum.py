"""MBRL with CEM on Pendulum-v1, its reward known."""

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "MbrlAlgorithm",
    "env": "Pendulum-v1",
    "env_steps": 5_000,
    "bar": -200,
    "reference": "-130 to -150 is the best there is",
}

pre_config({"hidden_layers": (32, 32), "reward": "pendulum", "population": 100, "iterations": 4, "horizon": 20})
import_config("bases/mbrl_cem.py")

config("create_environment", env_name="Pendulum-v1", num_parallel_environments=10)
# Planning for an evaluation takes as long as planning for training: there is one at the end, by `rein evaluate`.
config("TrainerConfig", num_env_steps=5_000, replay_buffer_length=1_000, num_updates_per_train_iter=10, evaluate=False)
