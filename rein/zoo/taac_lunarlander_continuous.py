"""TAAC on LunarLanderContinuous-v3."""

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "TaacAlgorithm",
    "env": "LunarLanderContinuous-v3",
    "env_steps": 100_000,
    "bar": 200,
    "reference": "normalised score 0.96, SAC 0.68 (Yu et al. 2021)",
}

pre_config({"learning_rate": 7e-4, "hidden_layers": (128, 128)})
import_config("bases/taac.py")

config("create_environment", env_name="LunarLanderContinuous-v3", num_parallel_environments=2)
config("TaacAlgorithmBase", target_update_tau=0.01)
config(
    "TrainerConfig",
    num_env_steps=100_000,
    replay_buffer_length=50_000,
    initial_collect_steps=10_000,
    mini_batch_size=64,
    num_updates_per_train_iter=2,
    num_eval_environments=10,
    summarize_first_interval=False,
    compile=True,
)
