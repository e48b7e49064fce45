"""Wrappers that change the reward."""

from collections.abc import Callable, Sequence
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rein.config import configurable


@configurable
class TransformReward(gym.wrappers.TransformReward[Any, Any]):
    """Applies `func` to every reward."""


@configurable
class ClipReward(gym.wrappers.ClipReward[Any, Any]):
    """Clips every reward between `min_reward` and `max_reward`."""


@configurable
class ScalarReward(gym.RewardWrapper[Any, Any], gym.utils.RecordConstructorArgs):
    """Turns a reward vector into a number.

    Args:
        env: a world with `reward_space`.
        weights: [d] weights of the sum; default all 1.
        function: maps the [d] reward to a number; excludes `weights`.
    """

    reward_space: spaces.Box = spaces.Box(-np.inf, np.inf, (), np.float32)

    def __init__(
        self,
        env: gym.Env[Any, Any],
        weights: Sequence[float] | None = None,
        function: Callable[[NDArray[np.float32]], float] | None = None,
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, weights=weights, function=function)
        gym.RewardWrapper.__init__(self, env)
        if weights is not None and function is not None:
            raise ValueError("ScalarReward takes weights or function, not both.")
        if not env.has_wrapper_attr("reward_space") or env.get_wrapper_attr("reward_space").shape == ():
            raise ValueError(f"{env} has no vector reward: it lacks a reward_space of shape [d].")
        dim = int(env.get_wrapper_attr("reward_space").shape[0])
        if weights is not None and len(weights) != dim:
            raise ValueError(f"{len(weights)} weights were given for a reward of size {dim}.")
        self._weights = np.ones(dim) if weights is None else np.asarray(weights, np.float64)
        self._function = function

    def reward(self, reward: Any) -> SupportsFloat:
        """Returns the weighted sum, or what the function gives."""
        return float(self._weights @ reward if self._function is None else self._function(reward))


@configurable
class ScalarRewardWrapper(ScalarReward):
    """`ScalarReward` under its documented name and default: the first reward counts and the others do not.

    Args:
        env: a world with `reward_space`.
        reward_weights: [d] weights of the sum; default 1 for the first and 0 for the others.
    """

    def __init__(self, env: gym.Env[Any, Any], reward_weights: Sequence[float] | None = None) -> None:
        if reward_weights is None:
            space = env.get_wrapper_attr("reward_space") if env.has_wrapper_attr("reward_space") else None
            reward_weights = None if space is None or space.shape == () else [1.0] + [0.0] * (space.shape[0] - 1)
        super().__init__(env, reward_weights)


@configurable
class VectorReward(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Replaces the reward by a vector of terms that the world reports in `info`.

    MuJoCo worlds, for example, report `reward_forward` and `reward_ctrl`.

    Args:
        env: the world to wrap.
        terms: keys of `info`; "reward" stands for the world's own reward.
    """

    def __init__(self, env: gym.Env[Any, Any], terms: Sequence[str]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, terms=terms)
        gym.Wrapper.__init__(self, env)
        if not terms or isinstance(terms, str):
            raise ValueError(f"terms must be a list of info keys; got {terms!r}.")
        self._terms = tuple(terms)
        self.reward_space = spaces.Box(-np.inf, np.inf, (len(terms),), np.float32)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Steps the world; the reward has shape [len(terms)]."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        available = {"reward": reward, **info}
        missing = [term for term in self._terms if term not in available]
        if missing:
            raise ValueError(f"info lacks the reward terms {missing}; it has {sorted(info)}.")
        vector = np.array([available[term] for term in self._terms], np.float32)
        return observation, vector, terminated, truncated, info
