"""Board games played by the rules of OpenSpiel."""

from collections.abc import Hashable
from typing import Any, NamedTuple, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from rein.config import configurable
from rein.envs.boards.board_game import BoardGameEnv, draw_stones
from rein.envs.boards.notation import Moves, Notation
from rein.envs.drawing import BLUE, RED, YELLOW, Frame, bar_chart

# Where OpenSpiel's observation of player 0 holds the stones of player 0 and of player 1.
_STONES = {"connect_four": (0, 1), "go": (0, 1), "tic_tac_toe": (1, 2), "othello": (1, 2)}


_MOVES: dict[str, Moves] = {"connect_four": "columns", "go": "points"}


class _Native(NamedTuple):
    """OpenSpiel's objects, and the list of moves that they stand for."""

    rules: Any
    state: Any
    moves: list[int]


_NATIVE: WeakKeyDictionary["OpenSpielEnv", _Native] = WeakKeyDictionary()


@configurable
class OpenSpielEnv(BoardGameEnv):
    """A two-player, deterministic game with perfect information from OpenSpiel.

    In games of stones (connect_four, go, othello) `board` has three planes: stones of player 0, of player 1,
    and `to_play`. In other games it is OpenSpiel's observation tensor as player 0 sees it, plus a plane of
    `to_play`. Row 0 is the bottom row. Actions are OpenSpiel's: columns in connect_four; points and then pass in go.

    The state of a game is `moves`, the list of moves made: OpenSpiel's own objects, which cannot be saved as plain data,
    are kept beside the world and follow it.

    Args:
        game: OpenSpiel's short name, such as "connect_four".
        parameters: of the game, such as `{"board_size": 9, "komi": 7.5}`.
        **options: see `BoardGameEnv`: opponent, opponent_side, reward_view, illegal_move, render_mode.
    """

    def __init__(self, game: str, parameters: dict[str, Any] | None = None, **options: Any) -> None:
        import pyspiel

        rules = pyspiel.load_game(game, dict(parameters or {}))
        _check_kind(pyspiel, rules)
        shape = tuple(rules.observation_tensor_shape())
        if len(shape) != 3:
            raise ValueError(f"{game} has no spatial observation (its shape is {shape}).")
        planes = 3 if game in _STONES else shape[0] + 1
        super().__init__(rules.num_distinct_actions(), (planes, *shape[1:]), rules.max_game_length(), **options)
        self._name = game
        self._rules_text = str(rules)
        self._tensor_shape = shape
        self.moves: list[int] = []

    @property
    def _state(self) -> Any:
        """OpenSpiel's state after `moves`; replayed if another list has been put in their place."""
        native = _NATIVE.get(self)
        if native is None or native.moves is not self.moves:
            import pyspiel

            rules = pyspiel.load_game(self._rules_text) if native is None else native.rules
            state = rules.new_initial_state()
            for move in self.moves:
                state.apply_action(move)
            native = _NATIVE[self] = _Native(rules, state, self.moves)
        return native.state

    def _begin(self) -> None:
        self.moves = []

    def _play(self, action: int) -> None:
        self._state.apply_action(action)
        self.moves.append(action)

    def _copy_position(self, other: Self) -> None:
        native_state = self._state.clone()
        other.moves = list(self.moves)
        _NATIVE[other] = _Native(_NATIVE[self].rules, native_state, other.moves)

    def notation(self) -> Notation:
        """See `BoardGameEnv`."""
        _, rows, columns = self._tensor_shape
        return Notation(_MOVES.get(self._name, "numbers"), rows, columns, has_pass=self._name == "go")

    def text(self) -> str:
        """See `BoardGameEnv`."""
        return super().text() if self._name in _STONES else str(self._state)

    def position_key(self) -> Hashable:
        """See `BoardGameEnv`."""
        # In go the positions that were there before forbid moves.
        past = tuple(self.moves) if self._name == "go" else ()
        return self._rules_text, self._board().tobytes(), past

    def _legal(self) -> NDArray[np.bool_]:
        mask = np.zeros(int(self.action_space.n), np.bool_)
        mask[self._state.legal_actions()] = True
        return mask

    def _player(self) -> int:
        player = self._state.current_player()
        # OpenSpiel has no player to move after the end; keep alternating.
        return int(player) if player >= 0 else len(self.moves) % 2

    def _outcome(self) -> float | None:
        if not self._state.is_terminal():
            return None
        # Some games score by margin.
        return float(np.sign(self._state.returns()[0]))

    def _board(self) -> NDArray[np.float32]:
        tensor = np.array(self._state.observation_tensor(0), np.float32).reshape(self._tensor_shape)
        to_play = np.full((1, *self._tensor_shape[1:]), self._player(), np.float32)
        if self._name in _STONES:
            tensor = tensor[list(_STONES[self._name])]
        return np.concatenate([tensor, to_play])

    def _draw(self) -> Frame:
        board = self._board()
        if self._name not in _STONES:
            return bar_chart(board[:-1].sum(axis=(1, 2)), None)
        upright = board[:2, ::-1]
        if self._name == "connect_four":
            return draw_stones(upright, ground=BLUE, colors=(RED, YELLOW))
        return draw_stones(upright)


def _check_kind(pyspiel: Any, rules: Any) -> None:
    kind = rules.get_type()
    if (
        kind.dynamics != pyspiel.GameType.Dynamics.SEQUENTIAL
        or kind.chance_mode != pyspiel.GameType.ChanceMode.DETERMINISTIC
        or kind.information != pyspiel.GameType.Information.PERFECT_INFORMATION
        or kind.utility != pyspiel.GameType.Utility.ZERO_SUM
        or rules.num_players() != 2
    ):
        raise ValueError(
            f"{kind.short_name} is not a two-player, zero-sum, turn-based game with perfect "
            "information and no chance, which is all that boards/ supports."
        )
