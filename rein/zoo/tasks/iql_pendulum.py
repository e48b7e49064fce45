"""Implicit Q-learning on Pendulum-v1 from mixed data: random, a third of the way trained, and expert."""

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "IqlAlgorithm",
    "env": "Pendulum-v1",
    "env_steps": 0,
    "updates": 10_000,
    "recordings": [
        {"run": "sac_pendulum", "episodes": 50, "policy": "random"},
        {"run": "sac_pendulum", "episodes": 50, "at": 0.3},
        {"run": "sac_pendulum", "episodes": 20},
    ],
    "bar": -200,
    "reference": "-788: a fifth of the way from cloning the same data (-947) to the recorded expert (-152)",
}

pre_config({"learning_rate": 1e-3, "hidden_layers": (128, 128)})
import_config("bases/iql.py")

config("create_environment", env_name="Pendulum-v1")
config("IqlAlgorithm", expectile=0.9, temperature=1.0)
config("TrainerConfig", num_iterations=100, num_eval_environments=10, compile=True)
