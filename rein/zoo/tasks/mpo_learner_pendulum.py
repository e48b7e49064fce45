"""The learner MPO on Pendulum-v1."""

from functools import partial

from rein.config import config, import_config
from rein.learners import MPO, build_network_actor
from rein.networks import ActorDistributionNetwork, CriticNetwork, StableNormalProjectionNetwork

ENTRY = {
    "algorithm": "LearnerAlgorithm",
    "env": "Pendulum-v1",
    "env_steps": 50_000,
    "bar": -170,
    "reference": "-152 (other algorithms on this task)",
}

import_config("parts/learner_run.py")
config(
    "StableNormalProjectionNetwork",
    squash_mean=False,
    state_dependent_std=True,
    scale_distribution=True,
    init_std=0.7,
    min_std=1e-3,
    max_std=2.0,
)

# Targets that keep 0.995 need some 200 / (1 - gamma) = 20,000 updates until values have settled, and a run has 10,000: the
# critic then does not notice where the policy has become worse.
make_learner, _ = MPO.create_factory(
    lr_q=1e-3,
    lr_pi=3e-4,
    polyak=0.98,
    num_updates=2,
    update_every=2,
    start_steps=200,
    max_grad_norm=10.0,
    mini_batch_size=128,
    sample_action_num=20,
)
config(
    "LearnerAlgorithm",
    learner=make_learner,
    actor=partial(
        build_network_actor,
        critic_ctor=partial(CriticNetwork, joint_fc_layer_params=(64, 64)),
        policy_ctor=partial(
            ActorDistributionNetwork,
            fc_layer_params=(64, 64),
            continuous_projection_net_ctor=StableNormalProjectionNetwork,
        ),
    ),
)
config("create_environment", env_name="Pendulum-v1", num_parallel_environments=5)
config("TrainerConfig", num_env_steps=50_000, replay_buffer_length=10_000)
