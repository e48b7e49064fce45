"""Batches of worlds: what they show when episodes end, normalization, frames, processes."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from rein.compat.sb3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack, VecMonitor, VecNormalize
from rein.compat.sb3.row import Row
from rein.compat.sb3.training_batch import TrainingBatch
from rein.compat.sb3.vec_env import BEGINS
from rein.compat.sb3.vec_normalize import RunningMeanStd


class Count(gym.Env[Any, Any]):
    """Observes the number of its step, earns it, and ends after `length` steps."""

    def __init__(self, length: int = 2, truncates: bool = False) -> None:
        self.observation_space = spaces.Box(0, 100, (1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.length, self.truncates = length, truncates

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.now = 0
        self.seeds = seed
        return np.array([0.0], np.float32), {"seed": seed}

    def step(self, action: Any) -> Any:
        self.now += 1
        over = self.now >= self.length
        return (
            np.array([self.now], np.float32),
            float(self.now),
            over and not self.truncates,
            over and self.truncates,
            {},
        )


def test_a_row_shows_the_next_episode_at_once_or_with_the_next_step() -> None:
    row = Row(Count())
    row.reset()
    row.step(0, waiting=False)
    observation, reward, done, info = row.step(0, waiting=False)
    assert (observation.tolist(), reward, done, info["terminal_observation"].tolist()) == ([0.0], 2.0, True, [2.0])
    assert info["TimeLimit.truncated"] is False
    row.step(0, waiting=True)
    observation, reward, done, info = row.step(0, waiting=True)
    assert (observation.tolist(), reward, done) == ([2.0], 2.0, True)
    observation, reward, done, info = row.step(0, waiting=True)
    assert (observation.tolist(), reward, done, info) == ([0.0], 0.0, False, {BEGINS: True})


def test_a_row_that_waits_begins_anew_for_those_who_do_not_wait() -> None:
    row = Row(Count(length=1))
    row.reset()
    assert row.step(0, waiting=True)[2]
    observation, reward, done, _ = row.step(0, waiting=False)
    assert (observation.tolist(), reward, done) == ([0.0], 1.0, True)


def test_training_sees_ends_and_time_limits() -> None:
    seen: list[dict[str, Any]] = []
    venv = DummyVecEnv([lambda: Count(length=1), lambda: Count(length=1, truncates=True)])
    batch = TrainingBatch(venv, seen.append, seed=7)
    venv.waiting = True
    batch.reset()
    assert venv.get_attr("seeds") == [7, 8]
    observation, reward, terminated, truncated, _ = batch.step(np.array([0, 1]))
    assert observation.tolist() == [[1.0], [1.0]]
    assert (terminated.tolist(), truncated.tolist(), reward.tolist()) == ([True, False], [False, True], [1.0, 1.0])
    assert seen[0]["dones"].tolist() == [True, True]
    assert batch.is_untouched
    venv.reset()
    assert not batch.is_untouched


def test_statistics_are_those_of_all_samples() -> None:
    samples = np.random.default_rng(0).normal(3.0, 2.0, (50, 2))
    statistics = RunningMeanStd(epsilon=0.0, shape=(2,))
    for part in np.split(samples, [1, 4, 20]):
        statistics.update(part)
    np.testing.assert_allclose(statistics.mean, samples.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(statistics.var, samples.var(axis=0), rtol=1e-12)


def test_normalized_rewards_are_divided_by_the_deviation_of_the_return() -> None:
    venv = VecNormalize(DummyVecEnv([lambda: Count(length=3)]), gamma=0.5, norm_obs=False)
    venv.reset()
    returns = RunningMeanStd()
    running = 0.0
    for step in (1.0, 2.0, 3.0, 1.0):
        _, reward, done, _ = venv.step(np.array([0]))
        running = running * 0.5 + step
        returns.update(np.array([running]))
        assert reward[0] == pytest.approx(min(step / np.sqrt(returns.var + 1e-8), 10.0), rel=1e-6)
        running = 0.0 if done[0] else running


def test_statistics_survive_saving_and_count_the_same_while_training(tmp_path: Any) -> None:
    def run(waiting: bool, steps: int) -> VecNormalize:
        venv = VecNormalize(DummyVecEnv([lambda: Count(length=2)]))
        venv.reset()
        venv.waiting = waiting
        for _ in range(steps):
            venv.step(np.array([0]))
        return venv

    # Two episodes: a batch that waits needs a step more for each of the two that begin.
    plain, waited = run(False, 4), run(True, 6)
    np.testing.assert_allclose(plain.obs_rms.mean, waited.obs_rms.mean)
    np.testing.assert_allclose(plain.ret_rms.var, waited.ret_rms.var)
    plain.save(tmp_path / "statistics.pkl")
    loaded = VecNormalize.load(tmp_path / "statistics.pkl", DummyVecEnv([Count]))
    np.testing.assert_array_equal(loaded.obs_rms.mean, plain.obs_rms.mean)
    assert loaded.ret_rms.count == plain.ret_rms.count


def test_frames_are_stacked_within_episodes() -> None:
    venv = VecFrameStack(DummyVecEnv([lambda: Count(length=2)]), n_stack=3)
    assert venv.reset().tolist() == [[0.0, 0.0, 0.0]]
    assert venv.step(np.array([0]))[0].tolist() == [[0.0, 0.0, 1.0]]
    observation, _, _, infos = venv.step(np.array([0]))
    assert observation.tolist() == [[0.0, 0.0, 0.0]]
    assert infos[0]["terminal_observation"].tolist() == [0.0, 1.0, 2.0]


def test_monitors_do_not_count_the_begin_of_an_episode() -> None:
    venv = VecMonitor(DummyVecEnv([lambda: Count(length=2)]))
    venv.reset()
    venv.waiting = True
    infos = [venv.step(np.array([0]))[3][0] for _ in range(5)]
    assert [(one["episode"]["r"], one["episode"]["l"]) for one in infos if "episode" in one] == [(3.0, 2), (3.0, 2)]


@pytest.mark.slow
def test_errors_of_a_process_arrive_as_they_are() -> None:
    venv = SubprocVecEnv([Count], start_method="fork")
    with pytest.raises(AttributeError):
        venv.get_attr("nothing_of_this_name")
    assert venv.reset().tolist() == [[0.0]]
    venv.close()
