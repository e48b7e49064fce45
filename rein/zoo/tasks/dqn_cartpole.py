"""DQN on CartPole-v1: returns of four steps, the lower of two critics, and steps that become smaller."""

from functools import partial

from rein.algorithms.losses import TDLoss
from rein.config import config, import_config, pre_config
from rein.ops import element_wise_huber_loss

ENTRY = {
    "algorithm": "DqnAlgorithm",
    "env": "CartPole-v1",
    "env_steps": 50_000,
    "bar": 475,
    "reference": "500 at 50k steps (RL Baselines3 Zoo)",
}

pre_config(
    {
        "learning_rate": 1e-3,
        "final_learning_rate": 0.0,
        "hidden_layers": (128, 128),
        "exploration_fraction": 0.16,
        "final_epsilon": 0.04,
    }
)
import_config("bases/dqn.py")
import_config("parts/compiled_run.py")

config("create_environment", env_name="CartPole-v1")
config(
    "DqnAlgorithm",
    num_critic_replicas=2,
    critic_loss_ctor=partial(TDLoss, td_lambda=1.0),
    target_update_tau=0.02,
    target_update_period=1,
    one_transition=False,
)
config("TDLoss", gamma=0.99, td_error_loss_fn=element_wise_huber_loss)
config(
    "TrainerConfig",
    num_env_steps=50_000,
    replay_buffer_length=50_000,
    unroll_length=16,
    mini_batch_length=5,
    num_updates_per_train_iter=16,
    num_eval_environments=20,
)
