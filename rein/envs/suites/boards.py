"""Board games; ids are `boards/tic_tac_toe`, `boards/connect_four`, `boards/go`."""

from importlib.util import find_spec
from typing import Any

import gymnasium as gym

from rein.envs.suites.suggestions import unknown_name
from rein.envs.suites.suite import MissingSuiteError, Suite

_PREFIX = "boards/"
_BUILT_IN = ("boards/tic_tac_toe",)
_OPEN_SPIEL = ("boards/connect_four", "boards/go", "boards/othello")
_GO = {"board_size": 9, "komi": 7.5}


def _make(env_name: str, **kwargs: Any) -> gym.Env[Any, Any]:
    """Returns a board game.

    Args:
        env_name: a listed id, or `boards/<name>` of any suitable game of OpenSpiel.
        **kwargs: see `BoardGameEnv`; `size` and `in_a_row` for tic-tac-toe; `board_size` (9) and `komi` (7.5)
            for go; `parameters` for other games.
    """
    if env_name in _BUILT_IN:
        from rein.envs.boards.tic_tac_toe import TicTacToeEnv

        return TicTacToeEnv(**kwargs)
    if find_spec("pyspiel") is None:
        raise MissingSuiteError(
            f"{env_name!r} needs OpenSpiel: pip install 'rein-rl[boards]' (boards/tic_tac_toe does not)"
        )
    import pyspiel

    from rein.envs.boards.open_spiel import OpenSpielEnv

    game = env_name.removeprefix(_PREFIX)
    names = [known.short_name for known in pyspiel.registered_games()]
    if game not in names:
        raise unknown_name(env_name, [f"{_PREFIX}{name}" for name in names], "board game")
    parameters = dict(kwargs.pop("parameters", {}))
    if game == "go":
        for name, default in _GO.items():
            parameters.setdefault(name, kwargs.pop(name, default))
    return OpenSpielEnv(game, parameters, **kwargs)


def _list_ids() -> list[str]:
    return [*_BUILT_IN, *(_OPEN_SPIEL if find_spec("pyspiel") is not None else ())]


BOARDS = Suite(
    name="boards",
    description="two-player board games with self-play (all but tic-tac-toe through OpenSpiel)",
    extra="boards",
    modules=(),
    claims=lambda env_name: env_name.startswith(_PREFIX),
    make=_make,
    list_ids=_list_ids,
)
