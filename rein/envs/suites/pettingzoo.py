"""PettingZoo's games of two players in turn; ids are `pettingzoo/tictactoe_v3`, `pettingzoo/connect_four_v3`, ..."""

from functools import partial
from importlib import import_module
from typing import Any

import gymnasium as gym

from rein.envs.headless import prepare_headless
from rein.envs.suites.suggestions import unknown_name
from rein.envs.suites.suite import Suite

_PREFIX = "pettingzoo/"
_KNOWN = ("pettingzoo/tictactoe_v3", "pettingzoo/connect_four_v3")


def _make_game(name: str) -> Any:
    prepare_headless()
    return import_module(f"pettingzoo.classic.{name}").env()


def _make(env_name: str, **kwargs: Any) -> gym.Env[Any, Any]:
    """Returns a game of `pettingzoo.classic` by the board interface; `kwargs` as of `BoardGameEnv`."""
    from rein.envs.boards.pettingzoo import PettingZooEnv

    name = env_name.removeprefix(_PREFIX)
    try:
        prepare_headless()
        import_module(f"pettingzoo.classic.{name}")
    except ModuleNotFoundError as error:
        raise unknown_name(env_name, _KNOWN, "game of pettingzoo.classic") from error
    return PettingZooEnv(partial(_make_game, name), **kwargs)


PETTING_ZOO = Suite(
    name="pettingzoo",
    description="PettingZoo's games of two players in turn, with self-play",
    extra="pettingzoo",
    modules=("pettingzoo",),
    claims=lambda env_name: env_name.startswith(_PREFIX),
    make=_make,
    list_ids=lambda: list(_KNOWN),
)
