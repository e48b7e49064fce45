"""SAC on LunarLanderContinuous-v3, with the settings that suited it best."""

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "SacAlgorithm",
    "env": "LunarLanderContinuous-v3",
    "env_steps": 100_000,
    "reference": "what TAAC is compared with; 260 at 500k steps (RL Baselines3 Zoo)",
}

pre_config({"learning_rate": 7e-4, "hidden_layers": (128, 128)})
import_config("bases/sac.py")

config("create_environment", env_name="LunarLanderContinuous-v3", num_parallel_environments=2)
config("SacAlgorithm", target_update_tau=0.01)
config(
    "TrainerConfig",
    num_env_steps=100_000,
    replay_buffer_length=50_000,
    initial_collect_steps=10_000,
    mini_batch_size=128,
    num_updates_per_train_iter=2,
    num_eval_environments=10,
    summarize_first_interval=False,
    compile=True,
)
