"""DDPG, TD3 and SAC reach goals that are rewarded only when reached, by hindsight and not without it."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from rein.algorithms.losses import OneStepTDLoss
from rein.algorithms.off_policy import DdpgAlgorithm, SacAlgorithm, Td3Algorithm
from rein.networks import (
    ActorDistributionNetwork,
    ActorNetwork,
    CriticNetwork,
    NestConcat,
    NormalProjectionNetwork,
)
from rein.optimizers import Adam
from rein.transforms import HindsightExperienceTransformer

ACTOR = partial(ActorNetwork, fc_layer_params=(64, 64), preprocessing_combiner=NestConcat())
STOCHASTIC_ACTOR = partial(
    ActorDistributionNetwork,
    fc_layer_params=(64, 64),
    preprocessing_combiner=NestConcat(),
    continuous_projection_net_ctor=partial(
        NormalProjectionNetwork, state_dependent_std=True, scale_distribution=True, squash_mean=False
    ),
)
CRITIC = partial(CriticNetwork, joint_fc_layer_params=(64, 64), observation_preprocessing_combiner=NestConcat())


def ddpg() -> Callable[..., Any]:
    return partial(
        DdpgAlgorithm,
        actor_network_ctor=ACTOR,
        critic_network_ctor=CRITIC,
        actor_optimizer=Adam(lr=1e-3),
        critic_optimizer=Adam(lr=1e-3),
        action_l2=0.05,
        ou_stddev=0.3,
        rollout_random_action=0.2,
    )


def td3() -> Callable[..., Any]:
    return partial(
        Td3Algorithm,
        actor_network_ctor=ACTOR,
        critic_network_ctor=CRITIC,
        actor_optimizer=Adam(lr=1e-3),
        critic_optimizer=Adam(lr=1e-3),
        rollout_noise=0.2,
        rollout_random_action=0.2,
        target_update_tau=0.05,
    )


def sac() -> Callable[..., Any]:
    return partial(
        SacAlgorithm,
        actor_network_cls=STOCHASTIC_ACTOR,
        critic_network_cls=CRITIC,
        actor_optimizer=Adam(lr=1e-3),
        critic_optimizer=Adam(lr=1e-3),
        alpha_optimizer=Adam(lr=1e-2),
    )


def near_reward(achieved: Tensor, desired: Tensor) -> Tensor:
    return -(torch.linalg.vector_norm(achieved - desired, dim=-1) > 0.1).float()


@pytest.mark.learning
@pytest.mark.parametrize("make", [ddpg, td3, sac])
def test_hindsight_reaches_goals_with_rewards_at_the_goal_only(train_toy: Any, make: Any) -> None:
    """The worst return is -30, the best about -6."""
    settings = {"env_kwargs": {"max_steps": 30, "tolerance": 0.1}, "mini_batch_size": 128}
    hindsight = {"data_transformer_ctor": partial(HindsightExperienceTransformer, reward_fn=near_reward)}
    returns = []
    for changes in (hindsight, {}):
        ctor = partial(make(), critic_loss_ctor=partial(OneStepTDLoss, gamma=0.95), one_transition=True)
        returns.append(train_toy(ctor, "rein/Reach-v0", 3000, **settings, **changes)[1])
    with_hindsight, plain = returns
    assert with_hindsight > -12.0
    assert plain < -20.0
