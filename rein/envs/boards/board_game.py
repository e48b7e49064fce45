"""What all two-player board games share: turns, opponents, masks and rewards."""

import copy
from abc import abstractmethod
from collections.abc import Callable, Hashable
from typing import Any, Self

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rein.config import configurable
from rein.envs.boards.notation import Notation
from rein.envs.boards.opponents import BOTS
from rein.envs.drawing import BLACK, WHITE, WOOD, Color, Frame, canvas, draw_line, fill_disc

BoardObservation = dict[str, Any]
Opponent = Callable[[BoardObservation, np.random.Generator], int]


@configurable
class BoardGameEnv(gym.Env[BoardObservation, int]):
    """A zero-sum game of two players, 0 (who begins) and 1.

    Observations are dicts:

    - `board`: float32 [planes, rows, columns]; in the games named here the stones of player 0, those of player
      1, and a plane filled with `to_play`;
    - `valid_action_mask`: bool [actions], the legal moves; all true after the end, where nothing can be moved;
    - `steps`: int32, moves made by both players since the start of the game;
    - `to_play`: int8, whose turn it is, 0 or 1.

    With `opponent="self"` (self-play) every step is a move of the player to play. Otherwise the agent has one
    side and a step is its move followed by the opponent's answer; `to_play` is then always the agent's side.

    Rewards come only at the end: 1 for a win, -1 for a loss, 0 for a draw, seen by default from player 0, *whoever
    moved last*, which is what the tree search expects (all values for player 0). `reward_view="mover"` shows
    them from the side whose move the step was: the agent's side against an opponent, alternating in self-play.

    Args:
        num_actions: number of different moves.
        board_shape: [planes, rows, columns] of `board`.
        max_moves: upper bound of the length of a game, in moves of both players.
        opponent: "self", a name of `rein.envs.boards.opponents.BOTS`, or a function of (observation, generator) that
            returns a legal move.
        opponent_side: 0, 1, or "random" to draw it for each game.
        reward_view: "player_0" or "mover".
        illegal_move: "lose" ends the game as lost for whoever made the move; "raise" raises ValueError.
        render_mode: None, or "rgb_array".
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 2}  # noqa: RUF012 (Gymnasium's name)
    observation_space: Any
    action_space: Any

    def __init__(
        self,
        num_actions: int,
        board_shape: tuple[int, ...],
        max_moves: int,
        opponent: str | Opponent = "self",
        opponent_side: int | str = 1,
        reward_view: str = "player_0",
        illegal_move: str = "lose",
        render_mode: str | None = None,
    ) -> None:
        _check_choice("reward_view", reward_view, ("player_0", "mover"))
        _check_choice("illegal_move", illegal_move, ("lose", "raise"))
        _check_choice("render_mode", render_mode, (None, "rgb_array"))
        _check_choice("opponent_side", opponent_side, (0, 1, "random"))
        if not callable(opponent):
            _check_choice("opponent", opponent, ("self", *BOTS))
        self._opponent = opponent
        self.max_moves = max_moves
        self._opponent_side = opponent_side
        self._reward_view = reward_view
        self._illegal_move = illegal_move
        self.render_mode = render_mode
        self.action_space = spaces.Discrete(num_actions)
        self.observation_space = spaces.Dict(
            {
                "board": spaces.Box(0.0, 1.0, board_shape, np.float32),
                "valid_action_mask": spaces.Box(0, 1, (num_actions,), np.bool_),
                "steps": spaces.Box(0, max_moves, (), np.int32),
                "to_play": spaces.Box(0, 1, (), np.int8),
            }
        )
        self._moves_made = 0
        self._agent_side: int | None = None
        self._winner: int | None = None

    @abstractmethod
    def _begin(self) -> None:
        """Sets up a new game."""

    @abstractmethod
    def _play(self, action: int) -> None:
        """Makes a legal move."""

    @abstractmethod
    def _legal(self) -> NDArray[np.bool_]:
        """Returns the [actions] legal moves; the game is not over."""

    @abstractmethod
    def _player(self) -> int:
        """Returns whose turn it is; after the end, any of the two."""

    @abstractmethod
    def _outcome(self) -> float | None:
        """Returns None while the game goes on, then 1, 0 or -1 as seen by player 0."""

    @abstractmethod
    def _board(self) -> NDArray[np.float32]:
        """Returns the [planes, rows, columns] board."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[BoardObservation, dict[str, Any]]:
        """Starts a game; an opponent that begins makes its first move."""
        super().reset(seed=seed)
        self._begin()
        self._moves_made = 0
        self._winner = None
        self._agent_side = None
        if self._opponent != "self":
            side = self._opponent_side
            opponent = int(self.np_random.integers(2)) if side == "random" else int(side)
            self._agent_side = 1 - opponent
            self._let_opponent_answer()
        return self._observe(), {}

    def step(self, action: int) -> tuple[BoardObservation, float, bool, bool, dict[str, Any]]:
        """Makes the move, and the opponent's if there is one."""
        if self._is_over():
            raise ValueError("The game is over: call reset() first.")
        mover = self._player()
        self._move(int(action), f"player {mover}")
        self._let_opponent_answer()
        return self._observe(), self._reward(mover), self._is_over(), False, {}

    def render(self) -> Frame | None:  # type: ignore[override]
        """Returns a frame, or None unless made with `render_mode="rgb_array"`."""
        return self._draw() if self.render_mode == "rgb_array" else None

    # For players who look ahead.

    def legal_moves(self) -> list[int]:
        """The legal moves; the game is not over."""
        return [int(move) for move in np.flatnonzero(self._legal())]

    def player_to_move(self) -> int:
        """0 or 1."""
        return self._player()

    def outcome(self) -> float | None:
        """None while the game goes on, then 1, 0 or -1 as seen by player 0."""
        if self._winner is not None:
            return 1.0 if self._winner == 0 else -1.0
        return self._outcome()

    def after(self, move: int) -> Self:
        """The game after a legal move of whoever is to move; this one stays as it is."""
        other = copy.copy(self)
        self._copy_position(other)
        other._play(move)
        other._moves_made += 1
        return other

    def position_key(self) -> Hashable:
        """What tells positions apart."""
        return type(self).__name__, self._board().tobytes()

    def notation(self) -> Notation:
        """How positions and moves are written."""
        return Notation("numbers", *self._board().shape[1:])

    def text(self) -> str:
        """The position, for a terminal."""
        return self.notation().draw(self._board()[:2])

    @abstractmethod
    def _copy_position(self, other: Self) -> None:
        """Gives `other`, a shallow copy of this game, a position of its own."""

    def _draw(self) -> Frame:
        return draw_stones(self._board()[:2])

    def _move(self, action: int, who: str) -> None:
        if not 0 <= action < int(self.action_space.n) or not self._legal()[action]:
            if self._illegal_move == "raise":
                legal = np.flatnonzero(self._legal()).tolist()
                raise ValueError(f"{who} made the illegal move {action}; legal moves are {legal}.")
            self._winner = 1 - self._player()
            return
        self._play(action)
        self._moves_made += 1

    def _let_opponent_answer(self) -> None:
        if self._agent_side is None:
            return
        while not self._is_over() and self._player() != self._agent_side:
            self._move(self._opponents_move(), "the opponent")

    def _opponents_move(self) -> int:
        if callable(self._opponent):
            return int(self._opponent(self._observe(), self.np_random))
        return BOTS[self._opponent](self, self.np_random)

    def _is_over(self) -> bool:
        return self.outcome() is not None

    def _reward(self, mover: int) -> float:
        outcome = self.outcome() or 0.0
        return -outcome if self._reward_view == "mover" and mover == 1 else outcome

    def _observe(self) -> BoardObservation:
        over = self._is_over()
        mask = np.ones(int(self.action_space.n), np.bool_) if over else self._legal()
        return {
            "board": self._board(),
            "valid_action_mask": mask,
            "steps": np.asarray(self._moves_made, np.int32),
            "to_play": np.asarray(self._player(), np.int8),
        }


def draw_stones(
    planes: NDArray[np.float32],
    cell: int = 32,
    ground: Color = WOOD,
    colors: tuple[Color, Color] = (BLACK, WHITE),
) -> Frame:
    """Returns a frame of a grid with the stones of planes [2, rows, columns], one disc each."""
    _, rows, columns = planes.shape
    frame = canvas(rows * cell, columns * cell, ground)
    for row in range(rows + 1):
        draw_line(frame, (row / rows, 0.0), (row / rows, 1.0), BLACK, 1)
    for column in range(columns + 1):
        draw_line(frame, (0.0, column / columns), (1.0, column / columns), BLACK, 1)
    for player, row, column in np.argwhere(planes > 0.5):
        square = frame[row * cell : (row + 1) * cell, column * cell : (column + 1) * cell]
        fill_disc(square, 0.5, 0.5, 0.4, colors[player])
    return frame


def _check_choice(name: str, value: Any, choices: tuple[Any, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {choices}; got {value!r}.")
