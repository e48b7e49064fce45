"""SAC on InvertedDoublePendulum-v5."""

from functools import partial

from rein.config import config, import_config, pre_config
from rein.transforms import RewardScaling

ENTRY = {
    "algorithm": "SacAlgorithm",
    "env": "InvertedDoublePendulum-v5",
    "env_steps": 100_000,
    "bar": 9300,
    "reference": "9359 at 1M steps (Tianshou)",
}

pre_config({"learning_rate": 1e-3, "hidden_layers": (128, 128)})
import_config("bases/sac.py")
import_config("parts/compiled_run.py")

config("create_environment", env_name="InvertedDoublePendulum-v5", num_parallel_environments=4)
config("SacAlgorithm", target_entropy=None)
config(
    "TrainerConfig",
    data_transformer_ctor=partial(RewardScaling, 0.1),
    num_env_steps=100_000,
    initial_collect_steps=1000,
    replay_buffer_length=25_000,
    mini_batch_size=128,
    num_updates_per_train_iter=2,
    num_eval_environments=10,
)
