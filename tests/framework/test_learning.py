"""Rollouts and learning in a counting world, where everything can be computed by hand."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

from rein.data_structures import AlgStep, LossInfo, StepType, TimeStep
from rein.envs import create_environment
from rein.framework import OffPolicyAlgorithm, OnPolicyAlgorithm, TrainerConfig
from rein.nest import Nest
from rein.optimizers import SGD
from rein.specs import TensorSpec


class Counting(gym.Env[Any, Any]):
    """Observation t at step t, reward t for step t; an episode ends after `length` steps."""

    observation_space = gym.spaces.Box(-100, 100, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, length: int = 3) -> None:
        self.length = length
        self.t = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        self.t = 0
        return np.array([0.0], np.float32), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        return np.array([self.t], np.float32), float(self.t), self.t == self.length, False, {}


class _Recorder:
    """Counts its own steps in a recurrent state, and records what it is called with."""

    def _setup(self) -> None:
        self.w = nn.Parameter(torch.zeros(()))
        self.losses: list[Any] = []

    def _step(self, inputs: TimeStep, state: Nest) -> AlgStep:
        batch = inputs.step_type.shape[0]
        count = state + 1
        info = {
            "t": inputs.observation[:, 0],
            "count": count[:, 0],
            "step_type": inputs.step_type,
            "w": self.w.expand(batch),
        }
        return AlgStep(output=torch.zeros(batch, dtype=torch.int64), state=count, info=info)

    def calc_loss(self, info: dict[str, torch.Tensor]) -> LossInfo:
        self.losses.append(info)
        return LossInfo(loss=info["w"])


class OnPolicyRecorder(_Recorder, OnPolicyAlgorithm):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(train_state_spec=TensorSpec((1,)), optimizer=SGD(lr=1.0), name="On", **kwargs)
        self._setup()

    def rollout_step(self, inputs: TimeStep, state: Nest) -> AlgStep:
        return self._step(inputs, state)


class OffPolicyRecorder(_Recorder, OffPolicyAlgorithm):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(train_state_spec=TensorSpec((1,)), optimizer=SGD(lr=1.0), name="Off", **kwargs)
        self._setup()

    def rollout_step(self, inputs: TimeStep, state: Nest) -> AlgStep:
        return self._step(inputs, state)

    def train_step(self, inputs: TimeStep, state: Nest, rollout_info: Nest) -> AlgStep:
        step = self._step(inputs, state)
        return step._replace(info={**step.info, "rollout_count": rollout_info["count"]})


def make(cls: type, batch: int = 1, length: int = 3, **settings: Any) -> Any:
    env = create_environment(lambda: Counting(length), batch, backend="sync", seed=0)
    config = TrainerConfig("", **settings)
    return cls(
        observation_spec=env.observation_spec,
        action_spec=env.action_spec,
        reward_spec=env.reward_spec,
        env=env,
        config=config,
    )


def test_on_policy_sees_one_step_more_than_it_takes_and_resets_its_state() -> None:
    alg = make(OnPolicyRecorder, unroll_length=5)
    assert alg.train_iter() == 5
    info = alg.losses[0]
    assert info["t"][:, 0].tolist() == [0, 1, 2, 3, 0, 1]
    assert info["count"][:, 0].tolist() == [1, 2, 3, 4, 1, 2]
    alg.train_iter()
    assert alg.losses[1]["t"][:, 0].tolist() == [1, 2, 3, 0, 1, 2]
    assert alg.losses[1]["count"][:, 0].tolist() == [2, 3, 4, 1, 2, 3]
    # dL/dw of 5 steps, of which one is LAST and masked, averaged over 5.
    assert alg.w.item() == pytest.approx(-(4 / 5) - (4 / 5))


def test_fresh_rollouts_are_trained_on_in_sequences_with_stored_states() -> None:
    settings = dict(unroll_length=4, mini_batch_length=2, mini_batch_size=1, num_updates_per_train_iter=1)
    alg = make(OffPolicyRecorder, use_rollout_state=True, **settings)
    assert alg.train_iter() == 4
    got = sorted(info["t"][:, 0].tolist() for info in alg.losses)
    assert got == [[0, 1], [2, 3]]
    for info in alg.losses:
        assert torch.equal(info["count"], info["rollout_count"])


def test_without_stored_states_sequences_start_from_zero() -> None:
    settings = dict(unroll_length=4, mini_batch_length=2, mini_batch_size=2, num_updates_per_train_iter=3)
    alg = make(OffPolicyRecorder, **settings)
    assert alg.train_iter() == 12
    assert len(alg.losses) == 3
    assert alg.losses[0]["count"].tolist() == [[1, 1], [2, 2]]


def test_replay_trains_on_consecutive_steps_after_the_initial_collection() -> None:
    settings = dict(whole_replay_buffer_training=False, clear_replay_buffer=False, replay_buffer_length=20)
    alg = make(
        OffPolicyRecorder,
        batch=2,
        length=50,
        unroll_length=1,
        mini_batch_length=2,
        mini_batch_size=8,
        num_updates_per_train_iter=2,
        initial_collect_steps=10,
        **settings,
    )
    trained = [alg.train_iter() for _ in range(6)]
    assert trained == [0, 0, 0, 0, 32, 32]
    info = alg.losses[-1]
    assert info["t"].shape == (2, 8)
    assert torch.equal(info["t"][1], info["t"][0] + 1)


def test_the_whole_buffer_without_clearing_keeps_the_step_before() -> None:
    settings = dict(whole_replay_buffer_training=True, clear_replay_buffer=False, num_updates_per_train_iter=1)
    alg = make(OffPolicyRecorder, length=50, unroll_length=3, **settings)
    alg.train_iter()
    alg.train_iter()
    assert alg.losses[0]["t"][:, 0].tolist() == [0, 1, 2]
    assert alg.losses[1]["t"][:, 0].tolist() == [2, 3, 4, 5]


def test_the_whole_buffer_is_cut_into_sequences_that_leave_out_the_newest_step() -> None:
    settings = dict(whole_replay_buffer_training=True, clear_replay_buffer=False, num_updates_per_train_iter=1)
    alg = make(OffPolicyRecorder, length=50, unroll_length=4, mini_batch_length=2, **settings)
    alg.train_iter()
    alg.train_iter()
    assert sorted(column.tolist() for column in alg.losses[0]["t"].T) == [[0, 1], [2, 3]]
    assert sorted(column.tolist() for column in alg.losses[1]["t"].T) == [[3, 4], [5, 6]]


def test_a_rollout_may_be_collected_before_the_first_iteration() -> None:
    settings = dict(whole_replay_buffer_training=False, clear_replay_buffer=False, mini_batch_size=2)
    alg = make(OffPolicyRecorder, unroll_length=3, mini_batch_length=2, **settings)
    assert alg.unroll(3) is not None
    assert alg.replay_buffer.total_size == 3


def test_replay_waits_until_there_is_a_sequence_to_sample() -> None:
    settings = dict(whole_replay_buffer_training=False, clear_replay_buffer=False, replay_buffer_length=20)
    alg = make(OffPolicyRecorder, length=50, unroll_length=1, mini_batch_length=3, mini_batch_size=2, **settings)
    assert [alg.train_iter() > 0 for _ in range(4)] == [False, False, True, True]


def test_specs_are_known_after_the_first_update() -> None:
    alg = make(OffPolicyRecorder, unroll_length=4)
    assert alg.train_info_spec is None
    alg.train_iter()
    assert alg.train_info_spec["t"] == TensorSpec(())
    assert alg.processed_experience_spec is not None


def test_a_fraction_of_a_step_is_made_up_for_later() -> None:
    alg = make(OnPolicyRecorder, unroll_length=1.5)
    lengths = []
    for _ in range(4):
        alg.train_iter()
        lengths.append(len(alg.losses[-1]["t"]) - 1)
    assert sum(lengths) == 6
    assert set(lengths) == {1, 2}


def test_no_steps_beyond_the_budget() -> None:
    settings = dict(whole_replay_buffer_training=False, replay_buffer_length=20, mini_batch_size=2, mini_batch_length=1)
    alg = make(OffPolicyRecorder, length=50, unroll_length=2, num_env_steps=5, num_iterations=20, **settings)
    for _ in range(8):
        alg.train_iter()
    assert 5 <= alg.env_steps <= 6
    assert len(alg.losses) == 8 * 4


def test_impossible_minibatches_are_refused_before_training() -> None:
    with pytest.raises(ValueError, match="cannot be cut into sequences of mini_batch_length=3"):
        make(OffPolicyRecorder, unroll_length=4, mini_batch_length=3)
    with pytest.raises(ValueError, match="gives rollouts of several lengths"):
        make(OffPolicyRecorder, unroll_length=4.5, mini_batch_length=2)
    with pytest.raises(ValueError, match="more than the 4 sequences"):
        make(OffPolicyRecorder, unroll_length=4, mini_batch_length=1, mini_batch_size=5)


def test_metrics_follow_the_episodes() -> None:
    alg = make(OnPolicyRecorder, unroll_length=9)
    alg.train_iter()
    result = alg.metrics.result()
    assert result["AverageReturn"] == 1 + 2 + 3
    assert result["AverageEpisodeLength"] == 3
    assert {metric.name: metric.result() for metric in alg.get_step_metrics()} == {
        "EnvironmentSteps": 6,
        "NumberOfEpisodes": 2,
    }
    names = [metric.name for metric in alg.get_metrics()]
    assert names == ["EnvironmentSteps", "NumberOfEpisodes", "AverageReturn", "AverageEpisodeLength"]


def test_step_types_reach_the_algorithm() -> None:
    alg = make(OnPolicyRecorder, unroll_length=4)
    alg.train_iter()
    types = alg.losses[0]["step_type"][:, 0].tolist()
    assert types == [StepType.FIRST, StepType.MID, StepType.MID, StepType.LAST, StepType.FIRST]


def test_what_the_environment_did_is_stored_in_place_of_the_output() -> None:
    settings = dict(whole_replay_buffer_training=False, replay_buffer_length=20, mini_batch_size=2, mini_batch_length=1)
    for overwrite in (False, True):
        alg = make(OffPolicyRecorder, length=50, unroll_length=4, initial_collect_steps=10, **settings)
        alg._overwrite_policy_output = overwrite
        step = alg.rollout.env.step
        alg.rollout.env.step = lambda action, step=step: step(action + 1)  # Somebody else acts.
        alg.train_iter()
        stored = alg.replay_buffer.get_field("action", torch.zeros(4, dtype=torch.int64), torch.arange(4))
        assert stored.tolist() == ([1, 1, 1, 1] if overwrite else [0, 0, 0, 0])
