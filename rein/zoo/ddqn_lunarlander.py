"""Double DQN on LunarLander-v3."""

from rein.config import config, import_config, pre_config

ENTRY = {
    "algorithm": "DqnAlgorithm",
    "env": "LunarLander-v3",
    "env_steps": 100_000,
    "bar": 160,
    "reference": "154 at 100k steps (DQN, RL Baselines3 Zoo)",
}

pre_config({"learning_rate": 6.3e-4, "exploration_fraction": 0.12, "final_epsilon": 0.1})
import_config("bases/dqn.py")

config("create_environment", env_name="LunarLander-v3")
config("DqnAlgorithm", target_net_target_action=False)
config("TrainerConfig", num_env_steps=100_000, replay_buffer_length=50_000, num_updates_per_train_iter=4)
