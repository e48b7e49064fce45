"""Evaluation counts whole episodes, fairly, and changes nothing."""

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

from rein.data_structures import AlgStep, TimeStep
from rein.envs import create_environment
from rein.framework import OnPolicyAlgorithm, TrainerConfig
from rein.nest import Nest
from rein.specs import TensorSpec
from rein.training import EvaluationResult, evaluate
from rein.transforms import ObservationNormalizer


class Lengths(gym.Env[Any, Any]):
    """World `number` has episodes of `number + 1` steps; each step earns 10 ** number (or a vector)."""

    observation_space = gym.spaces.Box(-100, 100, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)
    numbered = 0

    def __init__(self, vector: bool = False) -> None:
        self.number: int | None = None
        if vector:
            self.reward_space = gym.spaces.Box(-10, 10, (2,), np.float32)
        self.vector = vector

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        if self.number is None:
            self.number, Lengths.numbered = Lengths.numbered, Lengths.numbered + 1
        self.t = 0
        return np.array([0.0], np.float32), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.t += 1
        assert self.number is not None
        reward: Any = np.array([1.0, -0.5], np.float32) if self.vector else 10.0**self.number
        return np.array([self.t], np.float32), reward, self.t == self.number + 1, False, {}


class Succeeds(Lengths):
    """Episodes of 3 steps: world 0 succeeds half-way only, world 1 at the end."""

    env_info_space = gym.spaces.Dict({"is_success": gym.spaces.Box(0, 1, (), np.float32)})

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        observation, _ = super().reset(seed=seed)
        return observation, {"is_success": np.float32(0)}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        observation, reward, _, _, _ = super().step(action)
        success = self.t == 2 if self.number == 0 else self.t == 3
        return observation, reward, self.t == 3, False, {"is_success": np.float32(success)}


class Counter(OnPolicyAlgorithm):
    """Its recurrent state counts steps since the episode began."""

    def __init__(self, env: Any, **kwargs: Any) -> None:
        super().__init__(env.observation_spec, env.action_spec, TensorSpec((1,)), env.reward_spec, **kwargs)
        self.dropout = nn.Dropout(0.5)
        self.seen: list[Any] = []

    def predict_step(self, inputs: TimeStep, state: Nest) -> AlgStep:
        assert not self.training
        assert not torch.is_grad_enabled()
        self.seen.append((inputs.observation[:, 0].tolist(), state[:, 0].tolist()))
        torch.rand(3)
        np.random.rand(3)
        return AlgStep(output=torch.zeros(inputs.step_type.shape[0], dtype=torch.int64), state=state + 1)


def make(worlds: int, vector: bool = False) -> tuple[Any, Counter]:
    Lengths.numbered = 0
    env = create_environment(partial(Lengths, vector), worlds, backend="sync", seed=0)
    return env, Counter(env)


def test_success_is_what_the_last_step_says() -> None:
    Lengths.numbered = 0
    env = create_environment(Succeeds, 2, backend="sync", seed=0)
    result = evaluate(Counter(env), env, 6)
    assert result.successes is not None
    assert sorted(result.successes.tolist()) == [0, 0, 0, 1, 1, 1]
    record = result.to_json()
    assert record["success_rate"] == 0.5
    again = EvaluationResult.from_json(record)
    assert again.to_json() == record
    assert evaluate(make(2)[1], make(2)[0], 2).successes is None


def test_each_environment_contributes_its_share() -> None:
    """Short episodes must not crowd out long ones."""
    env, algorithm = make(3)
    result = evaluate(algorithm, env, 7)
    assert sorted(zip(result.returns.tolist(), result.lengths.tolist(), strict=True)) == [
        *[(1.0, 1)] * 3,
        *[(20.0, 2)] * 2,
        *[(300.0, 3)] * 2,
    ]


def test_fewer_episodes_than_environments() -> None:
    env, algorithm = make(3)
    assert evaluate(algorithm, env, 2).returns.tolist() == [1.0, 20.0]
    with pytest.raises(ValueError, match="num_episodes is 0"):
        evaluate(algorithm, env, 0)


def test_recurrent_states_begin_anew_with_every_episode() -> None:
    env, algorithm = make(2)
    evaluate(algorithm, env, 6)
    for observation, state in algorithm.seen:
        assert observation == state


def test_nothing_changes() -> None:
    env, algorithm = make(2)
    torch.manual_seed(3)
    np.random.seed(3)
    expected = (torch.rand(1).item(), np.random.rand())
    torch.manual_seed(3)
    np.random.seed(3)
    assert algorithm.training
    evaluate(algorithm, env, 4)
    assert algorithm.training
    assert (torch.rand(1).item(), np.random.rand()) == expected


def test_running_statistics_are_used_but_not_changed() -> None:
    env, _ = make(2)
    transformer = ObservationNormalizer(env.observation_spec)
    algorithm = Counter(env, config=TrainerConfig(""))
    algorithm.set_data_transformer(transformer)
    transformer.transform_timestep(env.reset(), ())
    before = {key: value.clone() for key, value in transformer.state_dict().items()}
    evaluate(algorithm, env, 4)
    assert transformer.training
    after = transformer.state_dict()
    assert all(torch.equal(value, after[key]) for key, value in before.items())


def test_errors_leave_the_algorithm_training() -> None:
    env, algorithm = make(1)

    def fail(time_step: TimeStep) -> None:
        raise RuntimeError("display is gone")

    with pytest.raises(RuntimeError, match="display is gone"):
        evaluate(algorithm, env, 1, fail)
    assert algorithm.training


def test_every_step_is_shown() -> None:
    env, algorithm = make(1)
    steps: list[int] = []
    evaluate(algorithm, env, 2, lambda time_step: steps.append(int(time_step.step_type[0])))
    assert steps == [0, 2, 0, 2]


def test_vector_rewards_are_summed_for_the_mean() -> None:
    env, algorithm = make(2, vector=True)
    result = evaluate(algorithm, env, 2)
    assert result.returns.tolist() == [[1.0, -0.5], [2.0, -1.0]]
    assert result.mean == pytest.approx(0.75)


class TestResult:
    result = EvaluationResult(np.array([1.0, 2.0, 3.0, 6.0]), np.array([1, 2, 3, 4]))

    def test_numbers(self) -> None:
        assert self.result.mean == 3.0
        assert self.result.std == pytest.approx(np.sqrt((4 + 1 + 0 + 9) / 3))
        low, high = self.result.confidence_interval()
        assert 1 <= low < 3 < high <= 6
        assert self.result.confidence_interval() == (low, high)
        narrow = self.result.confidence_interval(level=0.5)
        assert low < narrow[0] < narrow[1] < high

    def test_one_episode_has_no_spread(self) -> None:
        one = EvaluationResult(np.array([5.0]), np.array([1]))
        assert one.std == 0.0
        assert one.confidence_interval() == (5.0, 5.0)

    def test_json_round_trip(self) -> None:
        record = self.result.to_json()
        assert record["episodes"] == 4
        assert record["mean_length"] == 2.5
        again = EvaluationResult.from_json(record)
        assert again.returns.tolist() == self.result.returns.tolist()
        assert again.lengths.tolist() == self.result.lengths.tolist()
