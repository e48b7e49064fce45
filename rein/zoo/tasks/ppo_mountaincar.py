"""PPO on MountainCar-v0, without curiosity: it seldom or never reaches the flag."""

from rein.config import config, import_config, pre_config
from rein.transforms import RewardScaling

ENTRY = {
    "algorithm": "PPOAlgorithm",
    "env": "MountainCar-v0",
    "env_steps": 500_000,
    "reference": "what ppo_icm_mountaincar and ppo_rnd_mountaincar are compared with; -200 is never to reach the flag",
}

pre_config({"learning_rate": 1e-3, "final_learning_rate": 0.0, "is_orthogonal": False})
import_config("bases/ppo.py")

config("create_environment", env_name="MountainCar-v0", num_parallel_environments=16)
config("RewardScaling", scale=0.1)
config("PPOLoss", gamma=0.99, td_lambda=0.95, entropy_regularization=0.01)
config(
    "TrainerConfig",
    data_transformer_ctor=RewardScaling,
    num_env_steps=500_000,
    unroll_length=128,
    mini_batch_size=256,
    num_updates_per_train_iter=4,
    num_eval_environments=20,
)
