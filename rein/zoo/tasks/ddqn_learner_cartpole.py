"""The learner DDQN on CartPole-v1."""

from functools import partial

from rein.config import config, import_config
from rein.learners import DDQN, build_network_actor
from rein.networks import QNetwork
from rein.runtime import LinearScheduler

ENTRY = {
    "algorithm": "LearnerAlgorithm",
    "env": "CartPole-v1",
    "env_steps": 100_000,
    "bar": 475,
    "reference": "500 at 50k steps (RL Baselines3 Zoo)",
}

import_config("parts/learner_run.py")

# One critic that learns from several steps, with targets that follow at once, leaves what it has found and finds it again:
# 500.0 at 49,986 steps, 411.9 at 50,241 (`n_step=4`, `polyak=0.98`, a constant rate). Slower targets get there later.
make_learner, _ = DDQN.create_factory(
    lr=LinearScheduler("percent", ((0.0, 1e-3), (1.0, 0.0))),
    polyak=0.995,
    num_updates=16,
    update_every=16,
    start_steps=1000,
    max_grad_norm=10.0,
    mini_batch_size=128,
    epsilon_decay=0.9995,
)
config(
    "LearnerAlgorithm",
    learner=make_learner,
    actor=partial(
        build_network_actor,
        critic_ctor=partial(QNetwork, fc_layer_params=(128, 128)),
    ),
)
config("create_environment", env_name="CartPole-v1", num_parallel_environments=1)
config("TrainerConfig", num_env_steps=100_000, replay_buffer_length=100_000)
