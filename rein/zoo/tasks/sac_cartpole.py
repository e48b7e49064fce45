"""Discrete SAC on CartPole-v1: a cautious policy, no reward for entropy, and steps that become smaller."""

from rein.config import config, import_config, pre_config
from rein.ops import element_wise_huber_loss
from rein.optimizers import Adam
from rein.runtime import LinearScheduler

ENTRY = {
    "algorithm": "SacAlgorithm",
    "env": "CartPole-v1",
    "env_steps": 50_000,
    "bar": 475,
    "reference": "500 (the longest episode)",
}

pre_config({"learning_rate": 1e-3, "hidden_layers": (128, 128)})
sac = import_config("bases/sac.py")
import_config("parts/compiled_run.py")

config("create_environment", env_name="CartPole-v1", num_parallel_environments=4)
config(
    "SacAlgorithm",
    use_entropy_reward=False,
    target_entropy=0.1,
    target_update_tau=0.01,
    critic_optimizer=Adam(
        lr=LinearScheduler("percent", ((0.0, sac.learning_rate), (1.0, 0.0))),
        gradient_clipping=10.0,
        clip_by_global_norm=True,
    ),
)
config("OneStepTDLoss", gamma=0.98, td_error_loss_fn=element_wise_huber_loss)
config(
    "TrainerConfig",
    num_env_steps=50_000,
    initial_collect_steps=1000,
    replay_buffer_length=12_500,
    unroll_length=4,
    num_updates_per_train_iter=16,
    mini_batch_size=128,
    num_eval_environments=20,
)
