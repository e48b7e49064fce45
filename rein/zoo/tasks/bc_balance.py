"""Behaviour cloning by squared errors on rein/Balance-v0, from noisy episodes: it falls, which is the point."""

from functools import partial

from rein.config import config, import_config
from rein.networks import ActorNetwork

ENTRY = {
    "algorithm": "BcAlgorithm",
    "env": "rein/Balance-v0",
    "env_steps": 0,
    "updates": 4_000,
    "recordings": [{"run": "sac_balance", "episodes": 50, "policy": "lasting_noise=0.3"}],
    "measure": "success_rate",
    "at_most": 0.85,
    "reference": "what causal_bc_balance is compared with: it copies the noise that the speed gives away",
}

import_config("bases/bc.py")

config("create_environment", env_name="rein/Balance-v0", env_kwargs={"push": 0.3})
# As causal_bc_balance has it.
config("BcAlgorithm", actor_network_cls=partial(ActorNetwork, fc_layer_params=(64, 64)))
config("TrainerConfig", num_iterations=40, num_eval_environments=10)
