"""TAAC on LunarLanderContinuous-v3: at most four repeats in a row."""

from functools import partial

from rein.config import config, import_config, pre_config
from rein.optimizers import Adam
from rein.runtime import LinearScheduler
from rein.transforms import RewardScaling

ENTRY = {
    "algorithm": "TaacAlgorithm",
    "env": "LunarLanderContinuous-v3",
    "env_steps": 100_000,
    "bar": 200,
    "reference": "231 (sac_lunarlander_continuous); normalised score 0.96, SAC 0.68 (Yu et al. 2021)",
}

pre_config({"learning_rate": 7e-4, "hidden_layers": (128, 128)})
import_config("bases/taac.py")
import_config("parts/compiled_run.py")

decay = LinearScheduler("percent", ((0.0, 7e-4), (0.7, 7e-4), (1.0, 0.0)))
config("create_environment", env_name="LunarLanderContinuous-v3", num_parallel_environments=2)
config(
    "TaacAlgorithmBase",
    target_update_tau=0.01,
    target_entropy=(0.4, -2.0),
    max_repeat_steps=4,
    actor_optimizer=Adam(lr=decay),
    critic_optimizer=Adam(lr=decay),
)
config(
    "TrainerConfig",
    data_transformer_ctor=partial(RewardScaling, 0.1),
    num_env_steps=100_000,
    replay_buffer_length=50_000,
    initial_collect_steps=5_000,
    mini_batch_size=64,
    num_updates_per_train_iter=2,
    num_eval_environments=10,
)
