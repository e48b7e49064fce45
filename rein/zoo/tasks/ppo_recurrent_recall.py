"""Recurrent PPO on a recall task that no memoryless policy can solve."""

from rein.config import config, import_config, pre_config
from rein.networks import ActorDistributionRNNNetwork, ValueRNNNetwork

ENTRY = {
    "algorithm": "PPOAlgorithm",
    "env": "rein/Recall-v0",
    "env_steps": 50_000,
    "bar": 0.95,
    "reference": "1 is optimal; without memory chance is the best there is",
}

pre_config({"learning_rate": 1e-3, "final_learning_rate": 0.0, "is_orthogonal": False})
import_config("bases/ppo.py")
import_config("parts/recurrent_policy.py")

config("create_environment", env_name="rein/Recall-v0")
config("PPOAlgorithm", actor_network_ctor=ActorDistributionRNNNetwork, value_network_ctor=ValueRNNNetwork)
config(
    "TrainerConfig",
    num_env_steps=50_000,
    unroll_length=32,
    mini_batch_length=16,
    mini_batch_size=8,
    num_updates_per_train_iter=4,
    use_rollout_state=True,
    num_eval_environments=20,
)
