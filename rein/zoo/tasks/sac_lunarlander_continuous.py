"""SAC on LunarLanderContinuous-v3: returns of up to four steps, and steps that become smaller."""

from functools import partial

from rein.algorithms.losses import TDLoss
from rein.config import config, import_config, pre_config
from rein.optimizers import Adam
from rein.runtime import LinearScheduler
from rein.transforms import RewardScaling

ENTRY = {
    "algorithm": "SacAlgorithm",
    "env": "LunarLanderContinuous-v3",
    "env_steps": 100_000,
    "reference": "260 at 500k steps (RL Baselines3 Zoo); what TAAC is compared with",
}

pre_config({"learning_rate": 7e-4, "hidden_layers": (128, 128)})
import_config("bases/sac.py")
import_config("parts/compiled_run.py")

decay = LinearScheduler("percent", ((0.0, 7e-4), (0.7, 7e-4), (1.0, 0.0)))
config("create_environment", env_name="LunarLanderContinuous-v3", num_parallel_environments=2)
config(
    "SacAlgorithm",
    use_entropy_reward=False,
    target_entropy=-1.0,
    critic_loss_ctor=partial(TDLoss, gamma=0.99, td_lambda=1.0),
    target_update_tau=0.01,
    actor_optimizer=Adam(lr=decay),
    critic_optimizer=Adam(lr=decay),
    one_transition=False,
)
config(
    "TrainerConfig",
    data_transformer_ctor=partial(RewardScaling, 0.1),
    num_env_steps=100_000,
    replay_buffer_length=50_000,
    initial_collect_steps=5_000,
    mini_batch_length=5,
    mini_batch_size=64,
    num_updates_per_train_iter=2,
    num_eval_environments=10,
)
