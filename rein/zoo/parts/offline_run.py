"""A run that learns from a data set and takes no step in any environment, but for evaluation."""

from rein.config import config

config("create_environment", num_parallel_environments=1)
config(
    "TrainerConfig",
    num_iterations=100,
    num_updates_per_train_iter=100,
    mini_batch_size=256,
    whole_replay_buffer_training=False,
    clear_replay_buffer=False,
    rl_train_after_update_steps=2**62,  # Never.
    summary_interval=10,
    evaluate=True,
    num_evals=10,
    async_eval=False,
)
