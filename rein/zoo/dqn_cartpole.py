"""DQN on CartPole-v1: many updates after each long rollout."""

from rein.config import config, import_config, pre_config
from rein.ops import element_wise_squared_loss

ENTRY = {
    "algorithm": "DqnAlgorithm",
    "env": "CartPole-v1",
    "env_steps": 50_000,
    "bar": 475,
    "reference": "500 at 50k steps (RL Baselines3 Zoo)",
}

pre_config({"learning_rate": 2.3e-3, "exploration_fraction": 0.16, "final_epsilon": 0.04})
import_config("bases/dqn.py")

config("create_environment", env_name="CartPole-v1")
config("DqnAlgorithm", target_update_period=10)
config("OneStepTDLoss", td_error_loss_fn=element_wise_squared_loss)
config(
    "TrainerConfig",
    num_env_steps=50_000,
    replay_buffer_length=100_000,
    unroll_length=256,
    num_updates_per_train_iter=128,
    mini_batch_size=64,
    summary_interval=20,
    num_eval_environments=20,
)
