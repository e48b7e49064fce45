"""Board games played by the rules of OpenSpiel."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rein.config import configurable
from rein.envs.boards.board_game import BoardGameEnv, draw_stones
from rein.envs.drawing import BLUE, RED, YELLOW, Frame, bar_chart

# Where OpenSpiel's observation of player 0 holds the stones of player 0 and of player 1.
_STONES = {"connect_four": (0, 1), "go": (0, 1), "tic_tac_toe": (1, 2), "othello": (1, 2)}


@configurable
class OpenSpielEnv(BoardGameEnv):
    """A two-player, deterministic game with perfect information from OpenSpiel.

    In games of stones (connect_four, go, othello) `board` has three planes: stones of player 0, of player 1,
    and `to_play`. In other games it is OpenSpiel's observation tensor as player 0 sees it, plus a plane of
    `to_play`. Row 0 is the bottom row. Actions are OpenSpiel's: columns in connect_four; points and then pass in go.

    The state is `np_random` and `moves`, the list of moves made; `replay(moves)` restores it.

    Args:
        game: OpenSpiel's short name, such as "connect_four".
        parameters: of the game, such as `{"board_size": 9, "komi": 7.5}`.
        **options: see `BoardGameEnv`: opponent, opponent_side, reward_view, illegal_move, render_mode.
    """

    def __init__(self, game: str, parameters: dict[str, Any] | None = None, **options: Any) -> None:
        import pyspiel

        self._game = pyspiel.load_game(game, dict(parameters or {}))
        self._check_kind(pyspiel)
        self._name = game
        shape = tuple(self._game.observation_tensor_shape())
        if len(shape) != 3:
            raise ValueError(f"{game} has no spatial observation (its shape is {shape}).")
        self._tensor_shape = shape
        planes = 3 if game in _STONES else shape[0] + 1
        super().__init__(
            self._game.num_distinct_actions(),
            (planes, *shape[1:]),
            self._game.max_game_length(),
            **options,
        )
        self.moves: list[int] = []
        self._state = self._game.new_initial_state()

    def replay(self, moves: list[int]) -> None:
        """Restores the position after the given moves of both players."""
        self._begin()
        for move in moves:
            self._play(move)
        self._moves_made = len(moves)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state["_game"] = str(self._game)
        del state["_state"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        import pyspiel

        self.__dict__.update(state)
        self._game = pyspiel.load_game(state["_game"])
        self.replay(list(state["moves"]))

    def _check_kind(self, pyspiel: Any) -> None:
        kind = self._game.get_type()
        if (
            kind.dynamics != pyspiel.GameType.Dynamics.SEQUENTIAL
            or kind.chance_mode != pyspiel.GameType.ChanceMode.DETERMINISTIC
            or kind.information != pyspiel.GameType.Information.PERFECT_INFORMATION
            or kind.utility != pyspiel.GameType.Utility.ZERO_SUM
            or self._game.num_players() != 2
        ):
            raise ValueError(
                f"{kind.short_name} is not a two-player, zero-sum, turn-based game with perfect "
                "information and no chance, which is all that boards/ supports."
            )

    def _begin(self) -> None:
        self._state = self._game.new_initial_state()
        self.moves = []

    def _play(self, action: int) -> None:
        self._state.apply_action(action)
        self.moves.append(action)

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
