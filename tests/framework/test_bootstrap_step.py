"""The step at the end of a rollout is looked at twice, and must be counted once."""

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor

from rein.agents import Agent
from rein.algorithms.exploration import DIAYNAlgorithm, ICMAlgorithm, RandomCategoricalGoalGenerator, RNDAlgorithm
from rein.algorithms.on_policy import ActorCriticAlgorithm
from rein.envs import create_environment
from rein.framework import TrainerConfig
from rein.networks import EncodingNetwork, NestConcat
from rein.optimizers import Adam
from rein.specs import BoundedTensorSpec
from rein.statistics import AdaptiveNormalizer, EMAverager, Normalizer, are_statistics_frozen, frozen_statistics
from rein.transforms import ObservationNormalizer, RewardNormalizer, create_data_transformer

SKILLS = BoundedTensorSpec((), torch.int64, 0, 2)


class Counting(gym.Env[Any, Any]):
    """Step t shows t, without end."""

    observation_space = gym.spaces.Box(-1e6, 1e6, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        return np.array([self.t], np.float32), float(self.t), False, False, {}


def rnd(observation_spec: Any, action_spec: Any) -> RNDAlgorithm:
    nets = [EncodingNetwork(observation_spec, fc_layer_params=(4,)) for _ in range(2)]
    return RNDAlgorithm(*nets, reward_adapt_speed=1.0, observation_adapt_speed=1.0, observation_spec=observation_spec)


def icm(observation_spec: Any, action_spec: Any) -> ICMAlgorithm:
    return ICMAlgorithm(action_spec, observation_spec, hidden_size=4)


def diayn(observation_spec: Any, action_spec: Any) -> DIAYNAlgorithm:
    net = EncodingNetwork(observation_spec[0], fc_layer_params=(4,))
    return DIAYNAlgorithm(SKILLS, net, observation_spec=observation_spec[0])


def agent(module: Any, length: int, **arguments: Any) -> Agent:
    torch.manual_seed(0)
    env = create_environment(Counting, 1, backend="sync", seed=0)
    return Agent(
        env.observation_spec,
        env.action_spec,
        env=env,
        config=TrainerConfig("", unroll_length=length),
        intrinsic_reward_module=module,
        optimizer=Adam(lr=0.0),
        **arguments,
    )


def goals() -> dict[str, Any]:
    combined = dict(fc_layer_params=(4,), preprocessing_combiner=NestConcat())
    from rein.networks import ActorDistributionNetwork, ValueNetwork

    actor, value = partial(ActorDistributionNetwork, **combined), partial(ValueNetwork, **combined)
    rl = partial(ActorCriticAlgorithm, actor_network_ctor=actor, value_network_ctor=value)
    return dict(
        rl_algorithm_cls=rl,
        goal_generator=lambda observation_spec, action_spec: RandomCategoricalGoalGenerator(
            observation_spec, num_of_goals=3
        ),
    )


def statistics(algorithm: torch.nn.Module) -> dict[str, Tensor]:
    return {
        f"{name}.{key}": value.clone()
        for name, one in algorithm.named_modules()
        if isinstance(one, Normalizer)
        for key, value in one.state_dict().items()
    }


@pytest.mark.parametrize(("module", "arguments"), [(rnd, dict), (icm, dict), (diayn, goals)])
def test_intrinsic_rewards_count_each_step_once(module: Any, arguments: Any) -> None:
    often, seldom = agent(module, 2, **arguments()), agent(module, 12, **arguments())
    for _ in range(6):
        often.train_iter()
    seldom.train_iter()
    few, many = statistics(seldom), statistics(often)
    assert few
    counts = [name for name in few if "total" in name or "count" in name or "mass" in name]
    assert counts
    for name in counts:
        assert torch.equal(few[name], many[name]), name
    means = [name for name in few if "observation_normalizer" in name]
    assert means
    for name in means:
        assert torch.equal(few[name], many[name]), name


def test_transformers_count_each_step_once() -> None:
    algorithms = {}
    for length in (2, 12):
        env = create_environment(Counting, 1, backend="sync", seed=0)
        config = TrainerConfig("", unroll_length=length)
        algorithms[length] = ActorCriticAlgorithm(
            env.observation_spec, env.action_spec, env=env, config=config, optimizer=Adam(lr=0.0)
        )
        transformer = create_data_transformer([ObservationNormalizer, RewardNormalizer], env.observation_spec)
        algorithms[length].set_data_transformer(transformer)
        for _ in range(12 // length):
            algorithms[length].train_iter()
    first, second = (one.data_transformer.state_dict() for one in algorithms.values())
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert any("_num_updates" in name and value == 12 for name, value in first.items())


def test_frozen_statistics_take_in_nothing_and_still_normalize() -> None:
    normalizer, averager = AdaptiveNormalizer(torch_spec(), auto_update=True), EMAverager(torch_spec(), 0.5)
    for one in (normalizer, averager):
        one.update(torch.tensor([[1.0], [3.0]]))
    before = [tensor.clone() for one in (normalizer, averager) for tensor in one.state_dict().values()]
    with frozen_statistics():
        assert are_statistics_frozen()
        expected = normalizer.normalize(torch.tensor([[5.0]]))
        averager.average(torch.tensor([[5.0]]))
    after = [tensor for one in (normalizer, averager) for tensor in one.state_dict().values()]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert expected.item() == pytest.approx(3.0)
    assert not are_statistics_frozen()


def torch_spec() -> Any:
    return BoundedTensorSpec((1,), torch.float32, -10, 10)
