"""MDQ on Pendulum-v1."""

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "MdqAlgorithm",
    "env": "Pendulum-v1",
    "env_steps": 50_000,
    "bar": -200,
    "reference": "-152 (other algorithms on this task)",
}

pre_config({"hidden_size": 64})
import_config("bases/mdq.py")
import_config("parts/compiled_run.py")

config("create_environment", env_name="Pendulum-v1", num_parallel_environments=5)
config(
    "TrainerConfig",
    num_env_steps=50_000,
    replay_buffer_length=10_000,
    mini_batch_size=128,
    num_eval_environments=20,
)
