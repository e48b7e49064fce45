"""IMPALA on CartPole-v1 that takes rollouts up to ten versions old for fresh ones: what V-trace is for."""

from rein.config import config, import_config

ENTRY = {
    "algorithm": "PPOAlgorithm",
    "env": "CartPole-v1",
    "env_steps": 300_000,
    "reference": "what impala_cartpole is compared with",
}

import_config("tasks/impala_cartpole.py")

config("VTraceLoss", correct=False)
