"""Worlds by name: `load("CartPole-v1")`, `load("ALE/Pong-v5")`, `load("dm_control/cheetah-run")`, and so on.

Every world is a plain, single `gymnasium.Env`. Nothing of a suite is imported before one of its worlds is made.
"""

from typing import Any

import gymnasium as gym

from rein.envs.suites.atari import ATARI
from rein.envs.suites.boards import BOARDS
from rein.envs.suites.dm_control import DM_CONTROL
from rein.envs.suites.gymnasium_ids import (
    BOX2D,
    CLASSIC,
    MUJOCO,
    REGISTERED,
    TOY_TEXT,
    is_users_own,
)
from rein.envs.suites.minigrid import MINIGRID
from rein.envs.suites.pettingzoo import PETTING_ZOO
from rein.envs.suites.suggestions import unknown_name
from rein.envs.suites.suite import MissingSuiteError, Suite, SuiteInfo
from rein.envs.suites.toy import TOY

__all__ = ["MissingSuiteError", "Suite", "SuiteInfo", "available_suites", "load", "suite_of"]

_SUITES: tuple[Suite, ...] = (
    TOY,
    CLASSIC,
    TOY_TEXT,
    BOX2D,
    MUJOCO,
    BOARDS,
    PETTING_ZOO,
    DM_CONTROL,
    MINIGRID,
    ATARI,
    REGISTERED,
)


def load(env_name: str, **kwargs: Any) -> gym.Env[Any, Any]:
    """Returns one world by its id.

    Args:
        env_name: a Gymnasium id (also "module:id"), an Atari name ("ALE/Breakout-v5", "BreakoutNoFrameskip-v4",
            "Breakout"), a MiniGrid id, "dm_control/<domain>-<task>", "boards/<game>", "pettingzoo/<game>", or a toy
            id "rein/...".
        **kwargs: for the world, such as `render_mode="rgb_array"`; see the suite's page for its own.

    Raises:
        MissingSuiteError: the world's packages are not installed; the message names the extra.
        ValueError: no suite knows the id, or not in this version; the message names the nearest.
    """
    suite, env_name = suite_of(env_name), _without_module(env_name)
    suite.require(env_name, render=kwargs.get("render_mode") is not None)
    return suite.make(env_name, **kwargs)


def suite_of(env_name: str) -> Suite:
    """Returns the suite that an id belongs to; raises ValueError with suggestions if there is none."""
    if not isinstance(env_name, str):
        raise TypeError(f"The name of a world is a string; got {env_name!r}.")
    env_name = _without_module(env_name)
    if is_users_own(env_name):
        return REGISTERED
    for suite in _SUITES:
        if suite.claims(env_name):
            return suite
    known = [env_id for suite in _SUITES if suite is not DM_CONTROL for env_id in _ids(suite)]
    raise unknown_name(env_name, known, "environment")


def _without_module(env_name: str) -> str:
    """The id without "module:", if that is a module whose worlds a suite knows how to load."""
    module, _, env_id = env_name.partition(":")
    return env_id if any(module in suite.modules and suite.claims(env_id) for suite in _SUITES) else env_name


def available_suites() -> list[SuiteInfo]:
    """Returns all suites, whether each is installed, and the ids of those that are."""
    return [
        SuiteInfo(suite.name, suite.description, suite.extra, suite.is_installed(), _ids(suite)) for suite in _SUITES
    ]


def _ids(suite: Suite) -> tuple[str, ...]:
    return tuple(suite.list_ids()) if suite.is_installed() else ()
