"""SAC on Hopper-v5 with an update for every four steps; its replay buffer is what iql_hopper learns from."""

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "SacAlgorithm",
    "env": "Hopper-v5",
    "env_steps": 100_000,
    "reference": "the source of the data of iql_hopper and bc_hopper",
}

pre_config({"hidden_layers": (128, 128), "learning_rate": 1e-3})
import_config("bases/sac.py")
import_config("parts/compiled_run.py")

config("create_environment", env_name="Hopper-v5", num_parallel_environments=4, backend="sync")
config("SacAlgorithm", target_entropy=-3.0)
config("TrainerConfig", num_env_steps=100_000, initial_collect_steps=1000, replay_buffer_length=25_000)
