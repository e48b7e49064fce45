"""PPO on Hopper-v5."""

from rein.config import config, import_config, pre_config
from rein.envs.wrappers import ClipAction
from rein.transforms import ObservationNormalizer, RewardScaling

ENTRY = {
    "algorithm": "PPOAlgorithm",
    "env": "Hopper-v5",
    "env_steps": 1_000_000,
    "bar": 2200,
    "reference": "2609 (Tianshou), 2383 (CleanRL)",
}

pre_config({"final_learning_rate": 0.0, "is_orthogonal": False})
import_config("bases/ppo.py")

config("create_environment", env_name="Hopper-v5", num_parallel_environments=8, wrappers=(ClipAction,))
config("ObservationNormalizer", clipping=10.0)
config("RewardScaling", scale=0.02)
config("PPOLoss", gamma=0.99, td_lambda=0.95)
config(
    "TrainerConfig",
    data_transformer_ctor=(ObservationNormalizer, RewardScaling),
    num_env_steps=1_000_000,
    unroll_length=256,
    mini_batch_size=64,
    num_updates_per_train_iter=10,
    num_eval_environments=4,
)
