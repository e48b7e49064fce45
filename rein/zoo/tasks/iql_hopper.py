"""Implicit Q-learning on Hopper-v5 from the replay buffer of SAC: 100,000 transitions, from random to half trained."""

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "IqlAlgorithm",
    "env": "Hopper-v5",
    "env_steps": 0,
    "updates": 10_000,
    "recordings": [{"run": "sac_hopper", "replay": True}],
    "reference": "416 (d3rlpy 2.8.1 from the same data); cloning it (bc_hopper) reaches 267",
}

pre_config({"learning_rate": 1e-3, "hidden_layers": (128, 128)})
import_config("bases/iql.py")

config("create_environment", env_name="Hopper-v5")
config("TrainerConfig", num_iterations=100, num_eval_environments=10, compile=True)
