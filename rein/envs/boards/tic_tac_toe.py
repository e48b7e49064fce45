"""Tic-tac-toe, and its larger relatives on any board with any number in a row."""

from collections.abc import Hashable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rein.config import configurable
from rein.envs.boards.board_game import BoardGameEnv
from rein.envs.boards.notation import Notation

_DIRECTIONS = ((0, 1), (1, 0), (1, 1), (1, -1))


@configurable
class TicTacToeEnv(BoardGameEnv):
    """Tic-tac-toe; perfect play by both sides is a draw.

    Action `row * size + column` places a stone.

    Args:
        size: rows and columns.
        in_a_row: stones in a line that win; default `size`.
        **options: see `BoardGameEnv`: opponent, opponent_side, reward_view, illegal_move, render_mode.
    """

    def __init__(self, size: int = 3, in_a_row: int | None = None, **options: Any) -> None:
        in_a_row = size if in_a_row is None else in_a_row
        if not 1 <= in_a_row <= size:
            raise ValueError(f"in_a_row must be 1 to size={size}; got {in_a_row}.")
        super().__init__(size * size, (3, size, size), size * size, **options)
        self.size = size
        self.in_a_row = in_a_row
        self._cells = np.full((size, size), -1, np.int8)
        self._result: float | None = None

    def _begin(self) -> None:
        self._cells = np.full((self.size, self.size), -1, np.int8)
        self._result = None

    def _play(self, action: int) -> None:
        player = self._player()
        row, column = divmod(action, self.size)
        self._cells[row, column] = player
        if self._completes_line(row, column):
            self._result = 1.0 if player == 0 else -1.0
        elif (self._cells >= 0).all():
            self._result = 0.0

    def _copy_position(self, other: Self) -> None:
        other._cells = self._cells.copy()

    def notation(self) -> Notation:
        """See `BoardGameEnv`."""
        return Notation("points", self.size, self.size, top_row_first=True)

    def position_key(self) -> Hashable:
        """See `BoardGameEnv`."""
        return self.in_a_row, self._cells.shape, self._cells.tobytes()

    def _legal(self) -> NDArray[np.bool_]:
        return self._cells.ravel() < 0

    def _player(self) -> int:
        return self._moves_made % 2

    def _outcome(self) -> float | None:
        return self._result

    def _board(self) -> NDArray[np.float32]:
        to_play = np.full_like(self._cells, self._player())
        return np.stack([self._cells == 0, self._cells == 1, to_play]).astype(np.float32)

    def _completes_line(self, row: int, column: int) -> bool:
        player = self._cells[row, column]
        for down, right in _DIRECTIONS:
            count = 1
            for sign in (1, -1):
                r, c = row + sign * down, column + sign * right
                while 0 <= r < self.size and 0 <= c < self.size and self._cells[r, c] == player:
                    count += 1
                    r, c = r + sign * down, c + sign * right
            if count >= self.in_a_row:
                return True
        return False
