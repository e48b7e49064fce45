"""What parts are for, shown on toy worlds."""

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

from rein.agents import Agent
from rein.algorithms.losses import OneStepTDLoss, PPOLoss
from rein.algorithms.off_policy import SacAlgorithm
from rein.algorithms.on_policy import PPOAlgorithm
from rein.algorithms.regularization import (
    EntropyTargetAlgorithm,
    LagrangianRewardWeightAlgorithm,
    SGDEntropyTargetAlgorithm,
)
from rein.envs import create_environment
from rein.framework import TrainerConfig
from rein.networks import ActorDistributionNetwork, CriticNetwork, ValueNetwork
from rein.optimizers import SGD, Adam
from rein.training.evaluation import evaluate

pytestmark = pytest.mark.learning


def make(env_name: str, settings: dict[str, Any], **arguments: Any) -> Agent:
    torch.manual_seed(0)
    env = create_environment(env_name, 8, backend="sync", seed=0)
    config = TrainerConfig("", **settings)
    return Agent(env.observation_spec, env.action_spec, env.reward_spec, env=env, config=config, **arguments)


def two_rewards(iterations: int, **arguments: Any) -> Any:
    """Mean returns (speed, -cost) of a SAC agent; the cost per step should be at most 0.25, that is 2.5 per episode."""
    settings = dict(
        unroll_length=2,
        mini_batch_length=2,
        mini_batch_size=64,
        whole_replay_buffer_training=False,
        clear_replay_buffer=False,
        initial_collect_steps=200,
        replay_buffer_length=2000,
        num_updates_per_train_iter=1,
    )
    rl = partial(
        SacAlgorithm,
        actor_network_cls=partial(ActorDistributionNetwork, fc_layer_params=(32,)),
        critic_network_cls=partial(CriticNetwork, joint_fc_layer_params=(32,)),
        critic_loss_ctor=partial(OneStepTDLoss, gamma=0.5),
        initial_log_alpha=-3.0,
        use_entropy_reward=False,
        alpha_optimizer=SGD(lr=1e-9),
        reward_weights=[1.0, 0.3],
    )
    agent = make("rein/TwoRewards-v0", settings, rl_algorithm_cls=rl, optimizer=Adam(lr=1e-3), **arguments)
    for _ in range(iterations):
        agent.train_iter()
    env = create_environment("rein/TwoRewards-v0", 8, backend="sync", seed=1)
    return evaluate(agent, env, 16).returns.mean(0), agent.reward_weights


def test_tuned_weights_meet_a_constraint_that_fixed_ones_miss() -> None:
    fixed, _ = two_rewards(800)
    assert fixed[1] < -8.0
    weights = partial(
        LagrangianRewardWeightAlgorithm,
        reward_thresholds=[None, -0.25],
        optimizer=SGD(lr=0.01),
        init_weights=[1.0, 0.3],
        reward_weight_normalization=False,
    )
    tuned, found = two_rewards(2600, reward_weight_algorithm_cls=weights)
    assert tuned[1] > -3.0
    assert tuned[0] > 3.0  # 5 is the best under the constraint
    assert 0.7 < float(found[1]) < 1.5  # the multiplier of the optimum is 1


@pytest.mark.parametrize("kind", ["rules", "gradient"])
def test_the_entropy_is_held_at_its_target(kind: str) -> None:
    target = 0.4
    targets: dict[str, Any] = {
        "rules": partial(EntropyTargetAlgorithm, target_entropy=target),
        "gradient": partial(SGDEntropyTargetAlgorithm, target_entropy=target, optimizer=Adam(lr=1e-2)),
    }
    rl = partial(
        PPOAlgorithm,
        loss_class=PPOLoss,
        actor_network_ctor=partial(ActorDistributionNetwork, fc_layer_params=(32,)),
        value_network_ctor=partial(ValueNetwork, fc_layer_params=(32,)),
    )
    settings = dict(unroll_length=16, mini_batch_length=1, mini_batch_size=32, num_updates_per_train_iter=4)
    entropies = {}
    for name, entropy_target in (("held", targets[kind]), ("free", None)):
        agent = make(
            "rein/ContextualBandit-v0",
            settings,
            rl_algorithm_cls=rl,
            entropy_target_cls=entropy_target,
            optimizer=Adam(lr=3e-3),
        )
        late = []
        for iteration in range(200):
            agent.train_iter()
            if iteration >= 100:
                time_step = agent.rollout.env.current_time_step()
                late.append(
                    agent.predict_step(time_step, agent.predict_state_spec).info.rl.action_distribution.entropy()
                )
        entropies[name] = float(np.mean([entropy.mean().item() for entropy in late]))
    assert entropies["free"] < 0.1
    assert entropies["held"] == pytest.approx(target, rel=0.1)
