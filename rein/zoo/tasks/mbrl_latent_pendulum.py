"""MBRL in a learnt latent space on Pendulum-v1."""

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "LatentMbrlAlgorithm",
    "env": "Pendulum-v1",
    "env_steps": 10_000,
    "bar": -300,
    "reference": "-130 to -150 is the best there is",
}

pre_config({"learning_rate": 2e-3, "population": 60, "iterations": 4, "horizon": 20})
import_config("bases/mbrl_latent.py")

config("create_environment", env_name="Pendulum-v1", num_parallel_environments=10)
# Planning for an evaluation takes as long as planning for training: there is one at the end, by `rein evaluate`.
config(
    "TrainerConfig",
    num_env_steps=10_000,
    replay_buffer_length=1_000,
    num_updates_per_train_iter=6,
    mini_batch_size=256,
    evaluate=False,
)
