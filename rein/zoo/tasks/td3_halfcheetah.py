"""TD3 on HalfCheetah-v5, with the small initial weights of the authors' code and two updates of half their minibatch."""

import math
from functools import partial

from torch import nn

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "Td3Algorithm",
    "env": "HalfCheetah-v5",
    "env_steps": 100_000,
    "bar": 5000,
    "reference": "5514 at 100k steps (the authors' code)",
}

pre_config({"random_steps": 10_000})
import_config("bases/td3.py")
import_config("parts/compiled_run.py")

initializer = partial(nn.init.kaiming_uniform_, a=math.sqrt(5.0))
config("create_environment", env_name="HalfCheetah-v5")
config("ActorNetwork", kernel_initializer=initializer)
config("CriticNetwork", kernel_initializer=initializer)
config(
    "TrainerConfig",
    num_env_steps=100_000,
    replay_buffer_length=100_000,
    initial_collect_steps=10_000,
    mini_batch_size=128,
    num_updates_per_train_iter=2,
)
