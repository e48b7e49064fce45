"""One world of a batch: begins episodes by itself, in the step that ended the last or in the one after."""

from typing import Any

import gymnasium as gym

from rein.compat.sb3.vec_env import BEGINS

Step = tuple[Any, float, bool, dict[str, Any]]


class Row:
    """A world with where its episode stands."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        """Keeps the world.

        Args:
            env: not yet reset.
        """
        self.env = env
        self.reset_info: dict[str, Any] = {}
        self._has_ended = False

    def reset(self, **arguments: Any) -> Any:
        """Begins an episode; gives its first observation."""
        self._has_ended = False
        observation, self.reset_info = self.env.reset(**arguments)
        return observation

    def step(self, action: Any, waiting: bool) -> Step:
        """One step.

        Args:
            action: of this world; ignored where an episode begins instead.
            waiting: whether episodes begin with the step after the one that ended the last.

        Returns:
            Observation, reward, whether an episode ended, and info.
        """
        if self._has_ended:
            observation = self.reset()
            if waiting:
                return observation, 0.0, False, {BEGINS: True}
        observation, reward, terminated, truncated, info = self.env.step(action)
        done = bool(terminated or truncated)
        info = {**info, "TimeLimit.truncated": bool(truncated and not terminated)}
        if done:
            info["terminal_observation"] = observation
            if waiting:
                self._has_ended = True
            else:
                observation = self.reset()
        return observation, float(reward), done, info


def unwrap_wrapper(env: gym.Env[Any, Any], wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]]) -> Any:
    """The wrapper of a class around a world; None if there is none."""
    inner: Any = env
    while isinstance(inner, gym.Wrapper):
        if isinstance(inner, wrapper_class):
            return inner
        inner = inner.env
    return None


def is_wrapped(env: gym.Env[Any, Any], wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]]) -> bool:
    """Whether a world is wrapped in a class."""
    return unwrap_wrapper(env, wrapper_class) is not None


def attribute_of(env: gym.Env[Any, Any], name: str) -> Any:
    """An attribute of a world or of the nearest wrapper that has it."""
    return env.get_wrapper_attr(name)


def set_attribute(env: gym.Env[Any, Any], name: str, value: Any) -> None:
    """Sets an attribute where a wrapper has it, else in the world itself."""
    inner: Any = env
    while isinstance(inner, gym.Wrapper) and name not in vars(inner):
        inner = inner.env
    setattr(inner, name, value)
