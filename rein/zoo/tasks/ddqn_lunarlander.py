"""Double DQN on LunarLander-v3: the lower of two critics, targets that follow slowly, and steps that become smaller."""

from functools import partial

from rein.config import config, import_config, pre_config
from rein.transforms import RewardScaling

ENTRY = {
    "algorithm": "DqnAlgorithm",
    "env": "LunarLander-v3",
    "env_steps": 100_000,
    "bar": 160,
    "reference": "154 at 100k steps (DQN, RL Baselines3 Zoo)",
}

pre_config(
    {
        "learning_rate": 6e-4,
        "final_learning_rate": 0.0,
        "hidden_layers": (128, 128),
        "exploration_fraction": 0.2,
        "final_epsilon": 0.05,
    }
)
import_config("bases/dqn.py")
import_config("parts/compiled_run.py")

config("create_environment", env_name="LunarLander-v3")
config(
    "DqnAlgorithm",
    target_net_target_action=False,
    num_critic_replicas=2,
    target_update_tau=0.005,
    target_update_period=1,
)
config(
    "TrainerConfig",
    data_transformer_ctor=partial(RewardScaling, 0.1),
    num_env_steps=100_000,
    replay_buffer_length=100_000,
    unroll_length=8,
    num_updates_per_train_iter=8,
    num_eval_environments=10,
)
