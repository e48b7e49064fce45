"""Worlds that somebody has made already, for those who train: copies of an instance, or a batch as it is."""

import copy
from typing import Any

import gymnasium as gym
from gymnasium.vector import VectorEnv

__all__ = ["CopiesOf", "TheBatch"]


class CopiesOf:
    """Makes worlds by copying one; the one itself is never stepped."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        """Tries to make a copy.

        Args:
            env: what to copy; one that cannot be copied is made anew by its id, if it has one.

        Raises:
            ValueError: neither is possible.
        """
        self._env = env
        self._by_id = False
        try:
            copy.deepcopy(env)
        except Exception as error:
            if env.spec is None:
                raise ValueError(
                    f"env is an instance of {type(env.unwrapped).__name__} that cannot be copied ({error}): give its class, "
                    "or a function that makes one"
                ) from error
            self._by_id = True
        self.__qualname__ = type(env.unwrapped).__qualname__

    def __call__(self, **kwargs: Any) -> gym.Env[Any, Any]:
        """A world like the one given; `kwargs` are for those that are made by id."""
        if self._by_id or (kwargs and self._env.spec is not None):
            assert self._env.spec is not None
            return gym.make(self._env.spec, **kwargs)
        return copy.deepcopy(self._env)


class TheBatch:
    """Gives a vector environment to the first who asks, for `backend="vector"`."""

    def __init__(self, vector_env: VectorEnv[Any, Any, Any]) -> None:
        """Keeps it."""
        self._vector_env = vector_env
        self._is_given = False
        self.__qualname__ = type(vector_env).__qualname__

    def __call__(self, num_envs: int, **kwargs: Any) -> VectorEnv[Any, Any, Any]:
        """The batch itself."""
        if self._is_given:
            raise ValueError(
                f"the {self.__qualname__} given as env is in use for training: give an id or a function to evaluate too"
            )
        if num_envs != self._vector_env.num_envs:
            raise ValueError(
                f"{self.__qualname__} has {self._vector_env.num_envs} worlds, but {num_envs} were asked for"
            )
        self._is_given = True
        return self._vector_env
