"""Recurrent PPO on CartPole without velocities."""

from rein.config import config, import_config, pre_config
from rein.networks import ActorDistributionRNNNetwork, ValueRNNNetwork
from rein.transforms import ObservationNormalizer

ENTRY = {
    "algorithm": "PPOAlgorithm",
    "env": "rein/CartPoleNoVelocity-v1",
    "env_steps": 100_000,
    "bar": 450,
    "reference": "500 (RL Baselines3 Zoo, recurrent PPO)",
}

pre_config({"learning_rate": 1e-3, "final_learning_rate": 0.0, "is_orthogonal": False})
import_config("bases/ppo.py")
import_config("parts/recurrent_policy.py")

config("create_environment", env_name="rein/CartPoleNoVelocity-v1")
config("PPOAlgorithm", actor_network_ctor=ActorDistributionRNNNetwork, value_network_ctor=ValueRNNNetwork)
config("ObservationNormalizer", clipping=10.0, speed=1.0)
config("PPOLoss", gamma=0.98, td_lambda=0.9, entropy_regularization=0.001)
config(
    "TrainerConfig",
    data_transformer_ctor=ObservationNormalizer,
    num_env_steps=100_000,
    unroll_length=64,
    mini_batch_length=32,
    mini_batch_size=8,
    num_updates_per_train_iter=10,
    use_rollout_state=True,
    num_eval_environments=20,
)
