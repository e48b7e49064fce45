"""Sampled MuZero on Pendulum-v1: 20 torques drawn from the policy at each node, 10 simulations per step."""

from rein.config import config, import_config, pre_config
from rein.transforms import RewardScaling

ENTRY = {
    "algorithm": "MuzeroAlgorithm",
    "env": "Pendulum-v1",
    "env_steps": 60_000,
    "bar": -250,
    "reference": "-150 is the best there is; Hubert et al. 2021, arXiv:2104.06303",
}

pre_config(
    {
        "learning_rate": 2e-3,
        "final_learning_rate": 2e-4,
        "discount": 0.97,
        "td_steps": 20,
        "hidden_size": 128,
        "simulations": 10,
        "sampled_actions": 20,
        "exploration_fraction": 0.0,
        # Samples are too many for visits to say which is best: policies follow the values of all of them.
        "search_options": {
            "expand_all_root_children": True,
            "search_with_exploration_policy": True,
            "act_with_exploration_policy": True,
            "learn_with_exploration_policy": True,
            "unexpanded_value_score": "mean",
            "pb_c_init": 0.5,
        },
    }
)
import_config("bases/muzero.py")

config("create_environment", env_name="Pendulum-v1", num_parallel_environments=16)
config("MuzeroAlgorithm", reward_transformer=RewardScaling(scale=0.05))
config("SimpleMCTSModel", initial_alpha=0.005)
config("MuzeroRepresentationImpl", train_game_over_function=False)
config("StableNormalProjectionNetwork", state_dependent_std=True, min_std=0.1)
config(
    "TrainerConfig",
    num_env_steps=60_000,
    replay_buffer_length=500,
    unroll_length=8,
    num_updates_per_train_iter=8,
    num_eval_environments=10,
    num_eval_episodes=10,
    num_evals=5,
)
