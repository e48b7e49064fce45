"""PPO on CartPole-v1 that sees the representation of a MuZero model, which is trained beside it."""

from functools import partial

from rein.agents import Agent
from rein.algorithms.on_policy import PPOAlgorithm
from rein.algorithms.search import (
    MuzeroRepresentationImpl,
    MuzeroRepresentationLearner,
    MuzeroRepresentationTrainingOptions,
    SimpleMCTSModel,
)
from rein.algorithms.search.simple_networks import (
    create_simple_dynamics_net,
    create_simple_encoding_net,
    create_simple_prediction_net,
)
from rein.config import config, import_config
from rein.optimizers import Adam
from rein.runtime import LinearScheduler
from rein.transforms import RewardScaling

ENTRY = {
    "algorithm": "Agent",
    "env": "CartPole-v1",
    "env_steps": 20_000,
    "bar": 146,
    "reference": "146: ppo_cartpole_short, PPO alone with the same steps",
}

import_config("ppo_cartpole_short.py")

model = partial(
    SimpleMCTSModel,
    encoding_net_ctor=partial(create_simple_encoding_net, fc_layer_params=(64, 64)),
    dynamics_net_ctor=partial(create_simple_dynamics_net, fc_layer_params=(64,)),
    prediction_net_ctor=partial(create_simple_prediction_net, fc_layer_params=(64,)),
)
learner = partial(
    MuzeroRepresentationImpl,
    model_ctor=model,
    num_unroll_steps=5,
    td_steps=10,
    discount=0.98,
    reward_transformer=RewardScaling(scale=0.05),
    train_policy=False,
    train_repr_prediction=True,
    # It comes to rest first, so that the policy can.
    optimizer=Adam(lr=LinearScheduler("percent", ((0.0, 1e-3), (0.6, 0.0)))),
)
config(
    "Agent",
    rl_algorithm_cls=PPOAlgorithm,
    representation_learner_cls=partial(
        MuzeroRepresentationLearner,
        training_options=MuzeroRepresentationTrainingOptions(
            num_updates_per_train_iter=5, mini_batch_size=128, initial_collect_steps=1000, priority_replay=False
        ),
        impl_cls=learner,
    ),
)
config("TrainerConfig", algorithm_ctor=Agent)
