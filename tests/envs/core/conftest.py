"""Worlds whose every step is known by hand, and worlds that fail on demand."""

import os
import signal
import sys
import time

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

# Worker processes cannot import this file, so its classes travel by value.
cloudpickle.register_pickle_by_value(sys.modules[__name__])


class CountingEnv(gym.Env):
    """Shows [episode, step, last action]; rewards the number of the step; ends after `length` steps."""

    def __init__(self, length=3, terminates=True, spread=0):
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = spaces.Discrete(100)
        self.base_length, self.spread, self.terminates = length, spread, terminates
        self.length = length
        self.episode, self.count = -1, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if seed is not None:
            self.length = self.base_length + (seed % (self.spread + 1))
        self.episode += 1
        self.count = 0
        return np.array([self.episode, 0, -1], dtype=np.float32), {}

    def step(self, action):
        self.count += 1
        done = self.count >= self.length
        observation = np.array([self.episode, self.count, action], dtype=np.float32)
        return observation, float(self.count), done and self.terminates, done and not self.terminates, {}


class FaultyEnv(CountingEnv):
    """A counting world that fails in the way `fault` says when its step `at` comes, in its first life or always."""

    def __init__(self, fault, at=2, flag=None):
        super().__init__(length=5)
        self.fault, self.at, self.flag = fault, at, flag

    def _first_time(self):
        """Whether no other world of this test has failed yet."""
        if self.flag is None:
            return True
        try:
            os.close(os.open(self.flag, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        if self.fault == "reset" and self.episode > 0 and self._first_time():
            raise RuntimeError("no reset today")
        if self.fault == "nan_reset" and self.episode > 0 and self._first_time():
            observation = observation * np.nan
        return observation, info

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        if self.count != self.at or self.fault in ("reset", "nan_reset") or not self._first_time():
            return observation, reward, terminated, truncated, info
        if self.fault == "raise":
            raise RuntimeError("the world is broken")
        if self.fault == "nan":
            observation = observation.copy()
            observation[1] = np.nan
        elif self.fault == "nan_reward":
            reward = float("nan")
        elif self.fault == "shape":
            observation = np.zeros(4, dtype=np.float32)
        elif self.fault == "scalar":
            observation = np.float32(1.0)
        elif self.fault == "dtype":
            observation = np.array(["a", "b", "c"])
        elif self.fault == "none":
            observation = None
        elif self.fault == "hang":
            time.sleep(600)
        elif self.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.fault == "exit":
            os._exit(3)
        return observation, reward, terminated, truncated, info


class EchoEnv(gym.Env):
    """Shows the action that it was given; ends after 4 steps."""

    def __init__(self, space):
        self.observation_space = space
        self.action_space = space
        self.start = None
        self.count = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        if not self.action_space.contains(action):
            raise ValueError(f"{action!r} is not in {self.action_space}")
        self.count += 1
        return action, 1.0, False, self.count >= 4, {}


class ObjectivesEnv(CountingEnv):
    """A counting world with a reward of two components and numbers to report."""

    def __init__(self):
        super().__init__(length=3)
        self.reward_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.env_info_space = spaces.Dict({"speed": spaces.Box(-10, 10, (), np.float32)})
        self.num_tasks = 2
        self.task_names = ("walk", "run")

    def step(self, action):
        observation, reward, terminated, truncated, _ = super().step(action)
        info = {"speed": 2.5} if self.count == 2 else {}
        return observation, np.array([reward, -reward]), terminated, truncated, info


@pytest.fixture
def worlds():
    """The classes of this file."""
    return sys.modules[__name__]
