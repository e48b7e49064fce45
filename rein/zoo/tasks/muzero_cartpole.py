"""MuZero on CartPole-v1: eight games at once, 25 simulations per step."""

from rein.config import config, import_config, pre_config
from rein.transforms import RewardScaling

ENTRY = {
    "algorithm": "MuzeroAlgorithm",
    "env": "CartPole-v1",
    "env_steps": 40_000,
    "bar": 475,
    "reference": "500 is the best there is",
}

pre_config({"learning_rate": 2e-3, "final_learning_rate": 1e-4, "discount": 0.99})
import_config("bases/muzero.py")

config("create_environment", env_name="CartPole-v1", num_parallel_environments=8)
# Values of at most 2, which squared errors learn evenly.
config("MuzeroAlgorithm", reward_transformer=RewardScaling(scale=0.02))
config(
    "TrainerConfig",
    num_env_steps=40_000,
    replay_buffer_length=12_500,
    unroll_length=8,
    num_updates_per_train_iter=12,
    num_eval_environments=10,
    num_eval_episodes=10,
)
