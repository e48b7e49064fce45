"""R2D2 on a recall task: what was shown six steps ago is asked for."""

from rein.config import config, import_config

ENTRY = {
    "algorithm": "DqnAlgorithm",
    "env": "rein/Recall-v0",
    "env_steps": 30_000,
    "bar": 0.95,
    "reference": "1 is optimal; without memory chance is the best there is",
}

import_config("bases/r2d2.py")

config("Scheme", kind="r2d2", collectors=2)
config("create_environment", env_name="rein/Recall-v0", env_kwargs={"delay": 6})
config("TrainerConfig", num_env_steps=30_000, num_eval_environments=20)
