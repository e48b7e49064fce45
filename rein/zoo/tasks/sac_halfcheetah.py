"""SAC on HalfCheetah-v5, with the settings and initial weights of Stable-Baselines3, on minibatches of 128."""

from rein.config import config, import_config
from rein.networks.layers import torch_linear_init
from rein.ops import clipped_exp

ENTRY = {
    "algorithm": "SacAlgorithm",
    "env": "HalfCheetah-v5",
    "env_steps": 200_000,
    "bar": 5234.6,
    "reference": "5235 (Stable-Baselines3 with these settings on the same machine: 5271, 5781, 4874, 5013 on seeds 0 to 3)",
}

import_config("bases/sac.py")
import_config("parts/compiled_run.py")

config("create_environment", env_name="HalfCheetah-v5")
config("SacAlgorithm", target_entropy=-6.0)
config("FC", initializer=torch_linear_init)
config("NormalProjectionNetwork", std_transform=clipped_exp)
config(
    "TrainerConfig",
    num_env_steps=200_000,
    replay_buffer_length=200_000,
    initial_collect_steps=100,
    mini_batch_size=128,
)
