"""MuZero on CartPole-v1 with a fifth of each batch searched anew, and 60 % of the steps of `muzero_cartpole`."""

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "MuzeroAlgorithm",
    "env": "CartPole-v1",
    "env_steps": 24_000,
    "bar": 475,
    "reference": "muzero_cartpole, with 40k steps",
}

pre_config({"reanalyze_ratio": 0.2, "reanalyze_td_steps": 50})
import_config("tasks/muzero_cartpole.py")

config("TrainerConfig", num_env_steps=24_000)
