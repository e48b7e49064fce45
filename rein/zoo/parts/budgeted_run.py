"""A run that ends after a number of environment steps and evaluates ten times on the way, in the same process."""

from rein.config import config

config(
    "TrainerConfig",
    num_iterations=0,
    num_env_steps=1_000_000,
    evaluate=True,
    num_evals=10,
    async_eval=False,
)
