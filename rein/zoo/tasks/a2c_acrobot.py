"""A2C on Acrobot-v1."""

from rein.config import config, import_config, pre_config
from rein.transforms import ObservationNormalizer

ENTRY = {
    "algorithm": "ActorCriticAlgorithm",
    "env": "Acrobot-v1",
    "env_steps": 500_000,
    "bar": -90,
    "reference": "-83.4 (RL Baselines3 Zoo)",
}

pre_config({"final_learning_rate": 0.0})
import_config("bases/a2c.py")

config("create_environment", env_name="Acrobot-v1", num_parallel_environments=16)
config("ObservationNormalizer", clipping=10.0)
config(
    "TrainerConfig",
    data_transformer_ctor=ObservationNormalizer,
    num_env_steps=500_000,
    num_eval_environments=20,
)
