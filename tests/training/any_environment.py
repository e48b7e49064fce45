"""Small worlds of every kind of observation and action, and what each algorithm takes."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import rein

VECTOR = spaces.Box(-1, 1, (3,), np.float32)
CHOICE = spaces.Discrete(3)
AMOUNTS = spaces.Box(-1, 1, (2,), np.float32)


class World(gym.Env[Any, Any]):
    """Random observations, episodes of seven steps; refuses actions that are not of its space."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        self.observation_space = observation_space
        self.action_space = action_space
        self._time = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self._time = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if not self.action_space.contains(action):
            raise ValueError(f"{action!r} is not in {self.action_space}")
        self._time += 1
        return self.observation_space.sample(), 1.0, self._time >= 7, False, {}


def image(*shape: int, high: int = 255, dtype: Any = np.uint8) -> spaces.Box:
    return spaces.Box(0, high, shape, dtype)


OBSERVATIONS: dict[str, spaces.Space[Any]] = {
    "vector": VECTOR,
    "vector of doubles": spaces.Box(-1, 1, (3,), np.float64),
    "vector without bounds": spaces.Box(-np.inf, np.inf, (3,)),
    "one number": spaces.Box(-1, 1, (), np.float32),
    "matrix": spaces.Box(-1, 1, (3, 4)),
    "discrete": spaces.Discrete(5),
    "discrete from -2": spaces.Discrete(5, start=-2),
    "discrete of 5000": spaces.Discrete(5000),
    "multi-discrete": spaces.MultiDiscrete([3, 4]),
    "multi-discrete matrix": spaces.MultiDiscrete([[2, 3], [4, 5]]),
    "multi-binary": spaces.MultiBinary(4),
    "bools": spaces.Box(0, 1, (4,), bool),
    "small whole numbers": spaces.Box(-3, 3, (4,), np.int8),
    "large whole numbers": spaces.Box(-(10**6), 10**6, (4,), np.int32),
    "whole numbers without bounds": spaces.Box(-(2**31), 2**31 - 1, (2,), np.int32),
    "bytes": image(128),
    "image, channels first": image(3, 40, 40),
    "image, channels last": image(40, 44, 3),
    "small image": image(16, 16, 3),
    "gray image": image(40, 40),
    "float image": image(20, 20, 1, high=1, dtype=np.float32),
    "stack of frames": image(4, 36, 36, 3),
    "grid of bytes": image(7, 7, 3),
    "grid of codes": image(7, 7, 3, high=10),
    "bool image": image(12, 12, 2, high=1, dtype=bool),
    "board": spaces.Box(-1, 1, (3, 3), np.int8),
    "dict": spaces.Dict(a=VECTOR, b=spaces.Discrete(4), c=image(12, 12, 3)),
    "tuple": spaces.Tuple((VECTOR, spaces.MultiBinary(3))),
    "nested": spaces.Dict(x=spaces.Dict(y=VECTOR, z=spaces.Tuple((spaces.Discrete(2),))), w=spaces.Box(-1, 1, ())),
    "goal": spaces.Dict(observation=VECTOR, achieved_goal=AMOUNTS, desired_goal=AMOUNTS),
}
ACTIONS: dict[str, spaces.Space[Any]] = {
    "discrete": CHOICE,
    "discrete from 5": spaces.Discrete(3, start=5),
    "box": AMOUNTS,
    "box of one number": spaces.Box(-1, 1, (), np.float32),
    "box matrix": spaces.Box(-1, 1, (2, 2), np.float32),
    "box of doubles": spaces.Box(-2, 2, (2,), np.float64),
    "box without bounds": spaces.Box(-np.inf, np.inf, (2,)),
    "box with one bound": spaces.Box(0, np.inf, (2,)),
    "multi-discrete": spaces.MultiDiscrete([3, 2]),
    "multi-discrete matrix": spaces.MultiDiscrete([[2, 3], [4, 5]]),
    "multi-discrete from 1": spaces.MultiDiscrete([3, 2], start=[1, 2]),
    "multi-binary": spaces.MultiBinary(3),
    "whole numbers": spaces.Box(-2, 2, (2,), np.int32),
    "dict of both": spaces.Dict(a=CHOICE, b=AMOUNTS),
    "tuple of both": spaces.Tuple((CHOICE, AMOUNTS)),
    "tuple of discretes": spaces.Tuple((CHOICE, spaces.Discrete(2))),
    "tuple of boxes": spaces.Tuple((AMOUNTS, AMOUNTS)),
    "dict of binaries and box": spaces.Dict(m=spaces.MultiBinary(2), c=AMOUNTS),
}
ALGORITHMS = ("ppo", "a2c", "sac", "dqn", "td3")
_ON_POLICY = ("ppo", "a2c", "ppg", "trac")
CONTINUOUS_ONLY = ("td3", "ddpg", "mpo", "oac", "qrsac")
DISCRETE_ONLY = ("dqn",)


def takes(algorithm: str, action_space: spaces.Space[Any]) -> bool:
    """The table of docs/environments.md: whether an algorithm takes actions of a space."""
    leaves = _leaves(action_space)
    is_real = [isinstance(leaf, spaces.Box) and leaf.dtype.kind == "f" for leaf in leaves]
    if algorithm in CONTINUOUS_ONLY:
        return all(is_real)
    if algorithm in DISCRETE_ONLY:
        return not any(is_real)
    return True


def _leaves(space: spaces.Space[Any]) -> list[spaces.Space[Any]]:
    if isinstance(space, spaces.Dict):
        return [leaf for part in space.spaces.values() for leaf in _leaves(part)]
    if isinstance(space, spaces.Tuple):
        return [leaf for part in space.spaces for leaf in _leaves(part)]
    return [space]


def action_for(algorithm: str) -> spaces.Space[Any]:
    """An action that an algorithm takes."""
    return AMOUNTS if algorithm in CONTINUOUS_ONLY else CHOICE


def short_settings(algorithm: str) -> dict[str, Any]:
    """A run of a few dozen steps that does all that a long one does, but for evaluation."""
    settings: dict[str, Any] = {"TrainerConfig.evaluate": False, "TrainerConfig.num_checkpoints": 1}
    if algorithm in _ON_POLICY:
        settings |= {"create_environment.num_parallel_environments": 2, "TrainerConfig.unroll_length": 8}
        if algorithm in ("ppo", "ppg"):
            settings |= {"TrainerConfig.mini_batch_size": 8, "TrainerConfig.num_updates_per_train_iter": 1}
        return settings
    return settings | {
        "TrainerConfig.initial_collect_steps": 10,
        "TrainerConfig.mini_batch_size": 4,
        "TrainerConfig.replay_buffer_length": 100,
    }


def train_briefly(algorithm: str, env: Any, num_env_steps: int = 24) -> "rein.api.AgentHandle":
    """Trains from `rein.make(algorithm, env)`; what is set only makes it short."""
    agent = rein.make(algorithm, env=env, settings=short_settings(algorithm))
    agent.train(num_env_steps)
    return agent
