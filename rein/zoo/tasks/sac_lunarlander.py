"""Discrete SAC on LunarLander-v3: a temperature that falls slowly, and returns of up to four steps."""

from functools import partial

from rein.algorithms.losses import TDLoss
from rein.config import config, import_config, pre_config
from rein.ops import element_wise_huber_loss
from rein.optimizers import Adam
from rein.runtime import LinearScheduler
from rein.transforms import RewardScaling

ENTRY = {
    "algorithm": "SacAlgorithm",
    "env": "LunarLander-v3",
    "env_steps": 200_000,
    "bar": 180,
    "reference": "195",
}

pre_config({"learning_rate": 6e-4, "hidden_layers": (128, 128)})
sac = import_config("bases/sac.py")
import_config("parts/compiled_run.py")

config("create_environment", env_name="LunarLander-v3", num_parallel_environments=4, backend="sync")
config(
    "SacAlgorithm",
    use_entropy_reward=False,
    target_entropy=0.02,
    initial_log_alpha=-2.3,
    critic_loss_ctor=partial(TDLoss, td_lambda=1.0),
    critic_optimizer=Adam(
        lr=LinearScheduler("percent", ((0.0, sac.learning_rate), (1.0, 0.0))),
        gradient_clipping=10.0,
        clip_by_global_norm=True,
    ),
    alpha_optimizer=Adam(lr=2.5e-5),
    one_transition=False,
)
config("TDLoss", gamma=0.99, td_error_loss_fn=element_wise_huber_loss)
config(
    "TrainerConfig",
    data_transformer_ctor=partial(RewardScaling, 0.1),
    num_env_steps=200_000,
    replay_buffer_length=50_000,
    unroll_length=4,
    initial_collect_steps=5_000,
    mini_batch_length=5,
    mini_batch_size=48,
    num_updates_per_train_iter=16,
    num_eval_environments=20,
)
