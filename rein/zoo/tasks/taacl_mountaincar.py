"""TaacL on MountainCarContinuous-v0: smaller rewards and a slow temperature explore, steps that become smaller settle."""

from functools import partial

from rein.config import config, import_config, pre_config
from rein.optimizers import Adam
from rein.runtime import LinearScheduler
from rein.transforms import RewardScaling

ENTRY = {
    "algorithm": "TaacLAlgorithm",
    "env": "MountainCarContinuous-v0",
    "env_steps": 100_000,
    "bar": 90,
    "in_every_seed": True,
    "reference": "90 counts as solved (Gymnasium); normalised score 0.96, SAC 0.68 (Yu et al. 2021)",
}

pre_config({"hidden_layers": (64, 64)})
import_config("bases/taacl.py")
import_config("parts/compiled_run.py")

decay = LinearScheduler("percent", ((0.0, 1e-3), (0.7, 1e-3), (1.0, 0.0)))
config("create_environment", env_name="MountainCarContinuous-v0", num_parallel_environments=5)
config(
    "TaacAlgorithmBase",
    actor_optimizer=Adam(lr=decay),
    critic_optimizer=Adam(lr=decay),
    alpha_optimizer=Adam(lr=3e-4),
)
config(
    "TrainerConfig",
    data_transformer_ctor=partial(RewardScaling, 0.1),
    num_env_steps=100_000,
    replay_buffer_length=20_000,
    initial_collect_steps=5000,
    num_updates_per_train_iter=2,
    mini_batch_size=64,
    num_eval_environments=20,
)
