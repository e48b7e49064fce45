"""SAC on rein/Balance-v0 with small pushes; what causal_bc_balance and bc_balance learn from."""

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "SacAlgorithm",
    "env": "rein/Balance-v0",
    "env_steps": 10_000,
    "reference": "the source of the data of causal_bc_balance and bc_balance; a stiff controller by hand reaches -0.32",
}

pre_config({"learning_rate": 1e-3, "hidden_layers": (64, 64)})
import_config("bases/sac.py")
import_config("parts/compiled_run.py")

config("create_environment", env_name="rein/Balance-v0", env_kwargs={"push": 0.1}, num_parallel_environments=4)
config("SacAlgorithm", target_entropy=None)
config(
    "TrainerConfig",
    num_env_steps=10_000,
    initial_collect_steps=1000,
    replay_buffer_length=5_000,
    mini_batch_size=128,
    num_updates_per_train_iter=2,
    num_eval_environments=20,
)
