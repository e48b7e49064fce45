"""Causal behaviour cloning on rein/Balance-v0 with pushes, from episodes whose actions carry noise that lasts."""

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "CausalBcAlgorithm",
    "env": "rein/Balance-v0",
    "env_steps": 0,
    "updates": 4_000,
    "recordings": [{"run": "sac_balance", "episodes": 50, "policy": "lasting_noise=0.3"}],
    "measure": "success_rate",
    "bar": 0.84,
    "reference": "0.90, the recorded policy without noise; the bar is 6 points below, and bc_balance reaches 0.47",
}

pre_config({"hidden_layers": (64, 64)})
import_config("bases/causal_bc.py")

config("create_environment", env_name="rein/Balance-v0", env_kwargs={"push": 0.3})
config("TrainerConfig", num_iterations=40, num_eval_environments=10)
