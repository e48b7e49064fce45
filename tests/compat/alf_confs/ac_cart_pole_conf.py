from functools import partial

import alf
from alf.algorithms.actor_critic_algorithm import ActorCriticAlgorithm
from alf.algorithms.actor_critic_loss import ActorCriticLoss
from alf.environments import suite_gym
from alf.networks import ActorDistributionNetwork, CategoricalProjectionNetwork, ValueNetwork

alf.config(
    "create_environment",
    env_name="CartPole-v1",
    env_load_fn=suite_gym.load,
    num_parallel_environments=4,
)
alf.config("suite_gym.load", max_episode_steps=100)
alf.config("CategoricalProjectionNetwork", logits_init_output_factor=1e-10)
alf.config(
    "ActorCriticAlgorithm",
    actor_network_ctor=partial(ActorDistributionNetwork, fc_layer_params=(16,)),
    value_network_ctor=partial(ValueNetwork, fc_layer_params=(16,)),
    optimizer=alf.optimizers.Adam(lr=1e-3, gradient_clipping=10.0),
    loss_class=ActorCriticLoss,
)
alf.config("ActorCriticLoss", entropy_regularization=1e-4, gamma=0.98, use_gae=True, use_td_lambda_return=True)
alf.config(
    "TrainerConfig",
    algorithm_ctor=ActorCriticAlgorithm,
    num_iterations=3,
    unroll_length=8,
    num_checkpoints=1,
    evaluate=False,
    debug_summaries=True,
    summarize_grads_and_vars=True,
    summary_interval=1,
    random_seed=0,
)
alf.config("summarize_variables", with_histogram=False)
alf.config("make_ddp_performer", find_unused_parameters=True)
