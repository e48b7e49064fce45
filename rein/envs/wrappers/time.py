"""Wrappers that change how time passes."""

from typing import Any

import gymnasium as gym

from rein.config import configurable
from rein.envs.sampling import sample_space


@configurable
class TimeLimit(gym.wrappers.TimeLimit[Any, Any]):
    """Truncates episodes after `max_episode_steps` steps."""


@configurable
class FrameSkip(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Repeats every action and adds up the rewards, scalar or vector; stops when the episode ends.

    Gymnasium's `RepeatAction` does the same for scalar rewards only.

    Args:
        env: the world to wrap.
        skip: world steps per agent step, at least 1.
    """

    def __init__(self, env: gym.Env[Any, Any], skip: int) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, skip=skip)
        gym.Wrapper.__init__(self, env)
        if skip < 1:
            raise ValueError(f"skip must be at least 1; got {skip}.")
        self.skip = skip

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Returns the last observation and the sum of the rewards."""
        observation, total, terminated, truncated, info = self.env.step(action)
        for _ in range(self.skip - 1):
            if terminated or truncated:
                break
            observation, reward, terminated, truncated, info = self.env.step(action)
            total = total + reward  # type: ignore[operator]
        return observation, total, terminated, truncated, info


@configurable
class RandomWarmup(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Begins each episode with a random number of random actions that the agent never sees.

    Their rewards are dropped. Actions and their number come from the world's `np_random`, so that
    the same seed gives the same start.

    Args:
        env: the world to wrap.
        max_steps: the number of actions is uniform in [min_steps, max_steps].
        min_steps: see `max_steps`.
    """

    def __init__(self, env: gym.Env[Any, Any], max_steps: int = 30, min_steps: int = 0) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, max_steps=max_steps, min_steps=min_steps)
        gym.Wrapper.__init__(self, env)
        if not 0 <= min_steps <= max_steps:
            raise ValueError(f"Need 0 <= min_steps <= max_steps; got {min_steps=}, {max_steps=}.")
        self._min_steps = min_steps
        self._max_steps = max_steps

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Resets, then acts at random; a warm-up that ends the episode starts over."""
        observation, info = self.env.reset(seed=seed, options=options)
        count = int(self.env.np_random.integers(self._min_steps, self._max_steps + 1))
        for _ in range(count):
            action = sample_space(self.env.action_space, self.env.np_random)
            observation, _, terminated, truncated, info = self.env.step(action)
            if terminated or truncated:
                observation, info = self.env.reset(options=options)
        return observation, info
