"""A2C with an LSTM on a recall task whose cue lies further back than the rollouts reach: it fails, which is the point."""

from rein.config import config, import_config
from rein.networks import ActorDistributionRNNNetwork, ValueRNNNetwork
from rein.optimizers import AdamTF

ENTRY = {
    "algorithm": "ActorCriticAlgorithm",
    "env": "rein/Recall-v0",
    "env_steps": 480_000,
    "at_most": 0.8,
    "in_every_seed": True,
    "reference": "0.5 is chance: no gradient reaches from the question to the cue; merlin_recall has the same rollouts",
}

import_config("bases/a2c.py")
import_config("parts/recurrent_policy.py")

config("create_environment", env_name="rein/Recall-v0", env_kwargs={"delay": 12}, num_parallel_environments=200)
config("ActorCriticLoss", entropy_regularization=0.01)
config(
    "ActorCriticAlgorithm",
    actor_network_ctor=ActorDistributionRNNNetwork,
    value_network_ctor=ValueRNNNetwork,
    optimizer=AdamTF(lr=3e-3, gradient_clipping=10.0, clip_by_global_norm=True),
)
config("TrainerConfig", num_env_steps=480_000, unroll_length=6, num_eval_environments=20)
