"""The learner TD3 on Pendulum-v1."""

from functools import partial

from rein.config import config, import_config
from rein.learners import TD3, build_network_actor
from rein.networks import ActorNetwork, CriticNetwork

ENTRY = {
    "algorithm": "LearnerAlgorithm",
    "env": "Pendulum-v1",
    "env_steps": 20_000,
    "bar": -170,
    "reference": "-152 at 20k steps (RL Baselines3 Zoo)",
}

import_config("parts/learner_run.py")

make_learner, _ = TD3.create_factory(
    lr_q=1e-3,
    lr_pi=1e-3,
    num_updates=8,
    update_every=2,
    start_steps=250,
    max_grad_norm=10.0,
    mini_batch_size=128,
    target_update_interval=2,
)
config(
    "LearnerAlgorithm",
    learner=make_learner,
    actor=partial(
        build_network_actor,
        critic_ctor=partial(CriticNetwork, joint_fc_layer_params=(64, 64)),
        policy_ctor=partial(ActorNetwork, fc_layer_params=(64, 64)),
        num_critics=2,
        exploration_noise=0.3,
    ),
)
config("create_environment", env_name="Pendulum-v1", num_parallel_environments=4)
config("TrainerConfig", num_env_steps=20_000, replay_buffer_length=10_000)
