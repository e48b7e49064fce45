"""IMPALA on CartPole-v1, from rollouts that are up to ten versions old."""

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "PPOAlgorithm",
    "env": "CartPole-v1",
    "env_steps": 300_000,
    "bar": 475,
    "reference": "500 (other algorithms on this task)",
}

# Gradients of the value are far above this epsilon and those of the policy about as large: so the policy follows more slowly.
pre_config({"learning_rate": 1e-2, "adam_epsilon": 1e-2})
import_config("bases/impala.py")

config("Scheme", kind="impala", collectors=10)
config("create_environment", env_name="CartPole-v1")
config("TrainerConfig", num_env_steps=300_000, num_eval_environments=10)
