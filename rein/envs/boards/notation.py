"""Board games in text: positions for a terminal, and names of moves."""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Moves = Literal["points", "columns", "numbers"]
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_PASS = "pass"
_STONES = "xo"


class Notation(NamedTuple):
    """How the moves of a game are written."""

    moves: Moves
    """What a move names: a point such as b2, row * columns + column; a column such as b; or it has a number only."""
    rows: int
    columns: int
    top_row_first: bool = False
    """Whether row 0 is the top one."""
    has_pass: bool = False
    """Whether the move after the last point is to pass."""

    def name(self, move: int) -> str:
        """The text of a move.

        >>> Notation("points", 3, 3, top_row_first=True).name(0), Notation("columns", 6, 7).name(3)
        ('a3', 'd')
        """
        if self.moves == "numbers":
            return str(move)
        if self.moves == "columns":
            return _LETTERS[move]
        if self.has_pass and move == self.rows * self.columns:
            return _PASS
        row, column = divmod(move, self.columns)
        return f"{_LETTERS[column]}{self.rows - row if self.top_row_first else row + 1}"

    def move(self, text: str, legal: Sequence[int]) -> int:
        """The legal move that a text names.

        Raises:
            ValueError: it names none.
        """
        names = {self.name(move): move for move in legal}
        word = text.strip().lower()
        if word not in names:
            raise ValueError(f"{word!r} is no legal move here: choose {', '.join(names)}")
        return names[word]

    def draw(self, stones: NDArray[np.float32]) -> str:
        """A position: x and o for the stones of players 0 and 1, planes [2, rows, columns]."""
        marks = [
            ["." if not planes.any() else _STONES[int(planes.argmax())] for planes in row]
            for row in np.moveaxis(stones > 0.5, 0, -1)
        ]
        return self._grid(marks)

    def draw_counts(self, counts: Mapping[int, int]) -> str:
        """Counts of moves, where they would be played."""
        if self.moves == "numbers":
            return "  ".join(f"{self.name(move)}: {count}" for move, count in counts.items())
        if self.moves == "columns":
            cells = [[str(counts.get(column, "")) for column in range(self.columns)]]
            return self._grid(cells, rows=1, numbered=False)
        cells = [
            [str(counts.get(row * self.columns + column, ".")) for column in range(self.columns)]
            for row in range(self.rows)
        ]
        passed = counts.get(self.rows * self.columns)
        return self._grid(cells) + ("" if passed is None else f"\n{_PASS}: {passed}")

    def _grid(self, cells: list[list[str]], rows: int | None = None, numbered: bool = True) -> str:
        width = max(len(cell) for row in cells for cell in row)
        number = self.rows if rows is None else rows
        lines = []
        for at in range(number):
            row = at if self.top_row_first else number - 1 - at
            label = f"{number - at:>2} " if numbered and self.moves == "points" else "   "
            lines.append(label + " ".join(cell.rjust(width) for cell in cells[row]))
        letters = [] if self.moves == "numbers" else [_LETTERS[column].rjust(width) for column in range(self.columns)]
        return "\n".join([*lines, ("   " + " ".join(letters)).rstrip()])
