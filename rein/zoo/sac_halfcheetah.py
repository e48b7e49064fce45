"""SAC on HalfCheetah-v5, with the settings that Stable-Baselines3 has by default, on minibatches of 128."""

import math
from functools import partial

from torch import nn

from rein.config import config, import_config
from rein.ops import clipped_exp

ENTRY = {
    "algorithm": "SacAlgorithm",
    "env": "HalfCheetah-v5",
    "env_steps": 200_000,
    "reference": "Stable-Baselines3 with the same settings and seeds on the same machine",
}

import_config("bases/sac.py")

initializer = partial(nn.init.kaiming_uniform_, a=math.sqrt(5.0))
config("create_environment", env_name="HalfCheetah-v5")
config("SacAlgorithm", target_entropy=-6.0)
config("ActorDistributionNetwork", kernel_initializer=initializer)
config("CriticNetwork", kernel_initializer=initializer)
config(
    "NormalProjectionNetwork",
    std_transform=clipped_exp,
    std_bias_initializer_value=0.0,
    projection_output_init_gain=1.0 / math.sqrt(3.0),
)
config(
    "TrainerConfig",
    num_env_steps=200_000,
    replay_buffer_length=200_000,
    initial_collect_steps=100,
    mini_batch_size=128,
    summarize_first_interval=False,
    compile=True,
)
