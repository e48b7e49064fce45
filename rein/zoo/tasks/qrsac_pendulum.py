"""QRSAC on Pendulum-v1."""

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "QrsacAlgorithm",
    "env": "Pendulum-v1",
    "env_steps": 20_000,
    "bar": -165,
    "reference": "-151 (TQC, RL Baselines3 Zoo)",
}

pre_config({"learning_rate": 1e-3, "hidden_layers": (64, 64)})
import_config("bases/qrsac.py")
import_config("parts/compiled_run.py")

config("create_environment", env_name="Pendulum-v1", num_parallel_environments=4)
config("QrsacAlgorithm", target_entropy=None)
config(
    "TrainerConfig",
    num_env_steps=20_000,
    initial_collect_steps=1000,
    replay_buffer_length=5_000,
    mini_batch_size=128,
    num_updates_per_train_iter=2,
    num_eval_environments=20,
)
