"""PPO on CartPole-v1: solved in about half a minute."""

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "PPOAlgorithm",
    "env": "CartPole-v1",
    "env_steps": 100_000,
    "bar": 490,
    "reference": "500 at 100k steps (RL Baselines3 Zoo), 490 at 500k (CleanRL)",
}

pre_config({"learning_rate": 1e-3, "final_learning_rate": 0.0, "is_orthogonal": False})
import_config("bases/ppo.py")

config("create_environment", env_name="CartPole-v1")
config("PPOLoss", gamma=0.98, td_lambda=0.8)
config(
    "TrainerConfig",
    num_env_steps=100_000,
    unroll_length=32,
    mini_batch_size=256,
    num_updates_per_train_iter=20,
    num_eval_environments=10,
)
