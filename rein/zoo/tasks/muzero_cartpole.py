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

# Returns of fifty steps: a search of 25 simulations does not see as far as a cart drifts.
pre_config({"learning_rate": 2e-3, "final_learning_rate": 2e-4, "discount": 0.997, "td_steps": 50})
import_config("bases/muzero.py")

config("create_environment", env_name="CartPole-v1", num_parallel_environments=8)
# Values of a few units, which squared errors learn evenly.
config("MuzeroAlgorithm", reward_transformer=RewardScaling(scale=0.02))
config(
    "TrainerConfig",
    num_env_steps=40_000,
    replay_buffer_length=3_000,
    unroll_length=8,
    num_updates_per_train_iter=8,
    num_eval_environments=10,
    num_eval_episodes=10,
)
