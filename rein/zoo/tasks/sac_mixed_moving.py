"""SAC with a (discrete, continuous) action: choose what to do and how much of it, to drive to a disc and stop there."""

from functools import partial

from rein.config import config, import_config, pre_config
from rein.networks import NestConcat, QNetwork

ENTRY = {
    "algorithm": "SacAlgorithm",
    "env": "rein/Moving-v0",
    "env_steps": 300_000,
    "bar": 1.76,
    "reference": "1.85 is the best mean return, the bar 95 % of it",
}

pre_config({"learning_rate": 1e-3, "hidden_layers": (128, 128)})
import_config("bases/sac.py")
import_config("parts/compiled_run.py")

config("create_environment", env_name="rein/Moving-v0", num_parallel_environments=8, backend="sync")
config(
    "SacAlgorithm",
    q_network_cls=partial(QNetwork, fc_layer_params=(128, 128), preprocessing_combiner=NestConcat()),
    target_entropy=None,
)
config("OneStepTDLoss", gamma=0.95)
config(
    "TrainerConfig",
    num_env_steps=300_000,
    initial_collect_steps=1000,
    replay_buffer_length=37_500,
    unroll_length=4,
    num_updates_per_train_iter=4,
    mini_batch_size=128,
    num_eval_environments=20,
)
