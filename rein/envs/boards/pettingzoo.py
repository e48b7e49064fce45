"""Games of two players in turn from PettingZoo (its agent-environment cycle, AEC) as board games."""

from collections.abc import Callable
from typing import Any, NamedTuple, Self
from weakref import WeakKeyDictionary

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rein.config import configurable
from rein.envs.boards.board_game import BoardGameEnv

_LONGEST = 10_000
"""Upper bound of the moves of a game, which PettingZoo does not tell."""


class _Native(NamedTuple):
    """PettingZoo's game, and the list of moves that it stands for."""

    game: Any
    moves: list[int]


_NATIVE: WeakKeyDictionary["PettingZooEnv", _Native] = WeakKeyDictionary()


def is_aec(env: Any) -> bool:
    """Whether an object is a game of PettingZoo's AEC interface."""
    return all(callable(getattr(env, name, None)) for name in ("agent_iter", "observe", "last"))


@configurable
class PettingZooEnv(BoardGameEnv):
    """A zero-sum game of two players who move in turn, such as `pettingzoo.classic.connect_four_v3`.

    `board` is the observation of the first player as planes, and a plane of `to_play`; in games of stones these are the
    stones of player 0 and of player 1. Moves that `action_mask` forbids are illegal. The result is the sign of what the first
    player earned at the end. Games with chance or hidden parts are not for this interface.

    The state of a game is `moves`, the list of moves made; PettingZoo's own object is kept beside the world and follows it.

    Args:
        make: returns a new AEC game.
        **options: see `BoardGameEnv`: opponent, opponent_side, reward_view, illegal_move, render_mode.
    """

    def __init__(self, make: Callable[[], Any], **options: Any) -> None:
        game = make()
        if not is_aec(game):
            raise TypeError(f"{make!r} gave {type(game).__name__}: it must return a game of PettingZoo's AEC interface")
        game.reset(seed=0)
        players = list(game.possible_agents)
        if len(players) != 2:
            raise ValueError(f"{_name(game)} has {len(players)} players: board games have two")
        space = game.observation_space(players[0])
        parts = getattr(space, "spaces", {})
        if not {"observation", "action_mask"} <= set(parts) or len(parts["observation"].shape) != 3:
            raise ValueError(
                f"{_name(game)} observes {space}: board games need a Dict of observation [rows, columns, planes] and "
                "action_mask"
            )
        moves = game.action_space(players[0])
        if not isinstance(moves, spaces.Discrete) or moves.start != 0:
            raise ValueError(f"{_name(game)} has the moves {moves}: board games have Discrete ones from 0")
        rows, columns, planes = parts["observation"].shape
        super().__init__(int(moves.n), (planes + 1, rows, columns), _LONGEST, **options)
        self._make_game = make
        self._players = players
        self.moves: list[int] = []

    @property
    def _game(self) -> Any:
        """PettingZoo's game after `moves`; replayed if another list has been put in their place."""
        native = _NATIVE.get(self)
        if native is None or native.moves is not self.moves:
            game = self._make_game() if native is None else native.game
            game.reset(seed=0)
            for move in self.moves:
                game.step(move)
            native = _NATIVE[self] = _Native(game, self.moves)
        return native.game

    def _begin(self) -> None:
        self.moves = []

    def _play(self, action: int) -> None:
        self._game.step(action)
        self.moves.append(action)

    def _legal(self) -> NDArray[np.bool_]:
        return np.asarray(self._game.observe(self._game.agent_selection)["action_mask"]).astype(np.bool_)

    def _player(self) -> int:
        return len(self.moves) % 2 if self._outcome() is not None else self._players.index(self._game.agent_selection)

    def _outcome(self) -> float | None:
        game, first = self._game, self._players[0]
        if game.agents and not all(game.terminations.values()) and not all(game.truncations.values()):
            return None
        return float(np.sign(game.rewards[first]))

    def _board(self) -> NDArray[np.float32]:
        planes = np.asarray(self._game.observe(self._players[0])["observation"], np.float32).transpose(2, 0, 1)
        return np.concatenate([planes, np.full((1, *planes.shape[1:]), self._player(), np.float32)])

    def _copy_position(self, other: Self) -> None:
        other.moves = list(self.moves)


def _name(game: Any) -> str:
    return str(game.metadata.get("name", type(game).__name__))
