"""Wrappers that change what the world reports besides observation and reward."""

from collections.abc import Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rein.config import configurable


@configurable
class RecordEpisodeStatistics(gym.wrappers.RecordEpisodeStatistics[Any, Any]):
    """Adds `info["episode"]` with return, length and time at the end of each episode."""


@configurable
class InfoMetrics(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Declares scalars of `info` as metrics: sets `env_info_space` and fills them in at every step.

    A scalar that the world does not report at some step (most leave `reset` out) gets its default there.

    Args:
        env: the world to wrap.
        defaults: name of each scalar, and its value where it is missing.
    """

    def __init__(self, env: gym.Env[Any, Any], defaults: Mapping[str, float]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, defaults=dict(defaults))
        gym.Wrapper.__init__(self, env)
        self._defaults = {name: np.float32(value) for name, value in defaults.items()}
        scalar = spaces.Box(-np.inf, np.inf, (), np.float32)
        inner = env.get_wrapper_attr("env_info_space") if env.has_wrapper_attr("env_info_space") else {}
        self.env_info_space = spaces.Dict({**dict(inner), **dict.fromkeys(defaults, scalar)})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Resets the world and completes its info."""
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, self._complete(info)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Steps the world and completes its info."""
        result = self.env.step(action)
        if len(result) != 5:
            return result  # Of an old world: whoever steps it says what is wrong.
        *rest, info = result
        return (*rest, self._complete(info))  # type: ignore[return-value]

    def _complete(self, info: dict[str, Any]) -> dict[str, Any]:
        complete = dict(info)
        for name, default in self._defaults.items():
            value = np.asarray(complete.get(name, default), np.float32)
            if value.shape != ():
                raise ValueError(f"info[{name!r}] has shape {value.shape}; a metric is a scalar.")
            complete[name] = value[()]
        return complete
