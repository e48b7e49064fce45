"""Two-player board games for one agent that plays both sides, or against a fixed opponent."""

from rein.envs.boards.board_game import BoardGameEnv
from rein.envs.boards.tic_tac_toe import TicTacToeEnv

__all__ = ["BoardGameEnv", "TicTacToeEnv"]
