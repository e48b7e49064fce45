"""SAC that chooses how often to repeat each action, on MountainCarContinuous-v0."""

from functools import partial

from rein.agents import DynamicActionRepeatAgent
from rein.config import config, import_config, pre_config
from rein.networks import NestConcat, QNetwork

ENTRY = {
    "algorithm": "DynamicActionRepeatAgent",
    "env": "MountainCarContinuous-v0",
    "env_steps": 100_000,
    "bar": 90,
    "in_every_seed": True,
    "reference": "90 counts as solved (Gymnasium)",
}

pre_config({"learning_rate": 1e-3, "hidden_layers": (64, 64)})
sac = import_config("bases/sac.py")
import_config("parts/compiled_run.py")

config("create_environment", env_name="MountainCarContinuous-v0", num_parallel_environments=5)
config(
    "SacAlgorithm",
    q_network_cls=partial(QNetwork, preprocessing_combiner=NestConcat(), fc_layer_params=sac.hidden_layers),
    target_entropy=None,
)
config("DynamicActionRepeatAgent", K=10, gamma=0.99)
config(
    "TrainerConfig",
    algorithm_ctor=DynamicActionRepeatAgent,
    num_env_steps=100_000,
    replay_buffer_length=20_000,
    initial_collect_steps=1000,
    mini_batch_size=128,
    num_eval_environments=20,
)
