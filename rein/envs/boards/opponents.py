"""Players of board games that learn nothing: by chance, by rules of thumb, and by looking ahead."""

from collections.abc import Callable, Hashable
from typing import Any, Protocol, Self

import numpy as np


class Game(Protocol):
    """What a bot needs of a game; see `BoardGameEnv`."""

    max_moves: int
    action_space: Any

    def legal_moves(self) -> list[int]:
        """The legal moves."""

    def player_to_move(self) -> int:
        """0 or 1."""

    def outcome(self) -> float | None:
        """The result for player 0; None while the game goes on."""

    def after(self, move: int) -> Self:
        """The game after a move."""

    def position_key(self) -> Hashable:
        """What tells positions apart."""


Bot = Callable[[Game, np.random.Generator], int]
"""From a game that is not over, and a generator, to a legal move; the game is left as it is."""

_MOST_REMEMBERED = 500_000
_SEEN_TO_THE_END = 9
"""Moves of the longest game that `Minimax` sees to its end."""


def by_chance(game: Game, rng: np.random.Generator) -> int:
    """A uniformly random legal move."""
    return int(rng.choice(game.legal_moves()))


def one_move_ahead(game: Game, rng: np.random.Generator) -> int:
    """A move that wins; or else one after which the other cannot win at once; by chance among equals."""
    own = game.player_to_move()
    safe = []
    for move in game.legal_moves():
        after = game.after(move)
        outcome = _worth(after, own)
        if outcome == 1.0:
            return move
        if outcome is not None or not _can_win(after):
            safe.append(move)
    return int(rng.choice(safe or game.legal_moves()))


def _worth(game: Game, player: int) -> float | None:
    """The result for a player; None while the game goes on."""
    outcome = game.outcome()
    return outcome if outcome is None or player == 0 else -outcome


def _can_win(game: Game) -> bool:
    player = game.player_to_move()
    return any(_worth(game.after(move), player) == 1.0 for move in game.legal_moves())


class Minimax:
    """Looks at all moves and answers, to the end of short games, otherwise to a depth; by chance among the best."""

    def __init__(self, depth: int | None = None, error: float = 0.0) -> None:
        """Makes the bot.

        Args:
            depth: moves to look ahead; None sees games of at most nine moves to their end, others four moves ahead where
                there are at most eight moves to choose from, else two.
            error: share of moves that are made by chance instead.
        """
        if depth is not None and depth < 1:
            raise ValueError(f"depth is {depth}: look at least 1 move ahead")
        if not 0.0 <= error <= 1.0:
            raise ValueError(f"error is {error}: it must be a share, from 0 to 1")
        self.depth, self.error = depth, error
        self._known: dict[Hashable, float] = {}

    def __call__(self, game: Game, rng: np.random.Generator) -> int:
        """See `Bot`."""
        if self.error > 0.0 and rng.random() < self.error:
            return by_chance(game, rng)
        moves, depth = game.legal_moves(), self._depth(game)
        sign = 1.0 if game.player_to_move() == 0 else -1.0
        if len(self._known) > _MOST_REMEMBERED:
            self._known.clear()
        worth = np.array([sign * self._value(game.after(move), depth - 1, -2.0, 2.0) for move in moves])
        return int(rng.choice(np.array(moves)[worth == worth.max()]))

    def _depth(self, game: Game) -> int:
        if self.depth is not None:
            return self.depth
        if game.max_moves <= _SEEN_TO_THE_END:
            return game.max_moves
        return 4 if int(game.action_space.n) <= 8 else 2

    def _value(self, game: Game, depth: int, low: float, high: float) -> float:
        """What player 0 gets, as far as it is seen; exact within [low, high]."""
        outcome = game.outcome()
        if outcome is not None:
            return outcome
        if depth == 0:
            return 0.0
        key = (game.position_key(), depth)
        if key in self._known:
            return self._known[key]
        maximizes = game.player_to_move() == 0
        best, window = (-2.0 if maximizes else 2.0), (low, high)
        for move in game.legal_moves():
            value = self._value(game.after(move), depth - 1, low, high)
            if maximizes:
                best, low = max(best, value), max(low, value)
            else:
                best, high = min(best, value), min(high, value)
            if low >= high:
                break
        if window[0] < best < window[1]:
            self._known[key] = best
        return best


BOTS: dict[str, Bot] = {
    "random": by_chance,
    "one_move_ahead": one_move_ahead,
    "minimax": Minimax(),
    "minimax_erring": Minimax(error=0.1),
}
"""Bots by name; `minimax_erring` makes one move in ten by chance."""
