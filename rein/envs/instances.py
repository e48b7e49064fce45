"""Worlds that somebody has made already, for those who train: copies of an instance, a batch as it is, AEC games."""

import copy
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

import gymnasium as gym
from gymnasium.vector import VectorEnv

from rein.envs.boards.pettingzoo import PettingZooEnv, is_aec

__all__ = ["CopiesOf", "TheBatch", "TurnGames", "turn_games"]


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


class TurnGames:
    """Makes worlds of a two-player game of PettingZoo, see `PettingZooEnv`."""

    def __init__(self, make: Callable[[], Any], name: str) -> None:
        """Keeps what makes a game.

        Args:
            make: returns a new AEC game.
            name: what to call it.
        """
        self._make = make
        self.__qualname__ = name

    def __call__(self, **kwargs: Any) -> gym.Env[Any, Any]:
        """A game by the board interface; `kwargs` are those of `BoardGameEnv`."""
        return PettingZooEnv(self._make, **kwargs)


def turn_games(env: Any) -> TurnGames | None:
    """What makes the games if `env` is an AEC game of PettingZoo or a module of one such as `connect_four_v3`, else None."""
    if isinstance(env, ModuleType) and callable(getattr(env, "env", None)):
        return TurnGames(env.env, env.__name__.rpartition(".")[2])
    if is_aec(env):
        return TurnGames(partial(copy.deepcopy, env), str(env.metadata.get("name", type(env).__name__)))
    return None
