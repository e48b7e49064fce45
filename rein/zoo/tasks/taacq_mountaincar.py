"""TaacQ on MountainCarContinuous-v0."""

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "TaacQAlgorithm",
    "env": "MountainCarContinuous-v0",
    "env_steps": 100_000,
    "bar": 90,
    "in_every_seed": True,
    "reference": "90 counts as solved (Gymnasium); normalised score 0.96, SAC 0.68 (Yu et al. 2021)",
}

pre_config({"learning_rate": 1e-3, "hidden_layers": (64, 64)})
import_config("bases/taacq.py")
import_config("parts/compiled_run.py")

config("create_environment", env_name="MountainCarContinuous-v0", num_parallel_environments=5)
config(
    "TrainerConfig",
    num_env_steps=100_000,
    replay_buffer_length=20_000,
    initial_collect_steps=5000,
    mini_batch_size=64,
    num_eval_environments=20,
)
