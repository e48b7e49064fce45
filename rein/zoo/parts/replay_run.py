"""A run of one environment that keeps all steps and updates once per step from pairs of them."""

from rein.config import config, import_config

import_config("parts/budgeted_run.py")

config("create_environment", num_parallel_environments=1)
config(
    "TrainerConfig",
    unroll_length=1,
    initial_collect_steps=1000,
    mini_batch_length=2,
    num_updates_per_train_iter=1,
    whole_replay_buffer_training=False,
    clear_replay_buffer=False,
    replay_buffer_length=1_000_000,
    summary_interval=1000,
)
