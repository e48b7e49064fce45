"""Bots of board games, the look-ahead that they use, and moves in text."""

import numpy as np
import pytest

from rein.envs.boards import TicTacToeEnv
from rein.envs.boards.notation import Notation
from rein.envs.boards.opponents import BOTS, Minimax


def game_of(moves, make=TicTacToeEnv):
    game = make()
    game.reset(seed=0)
    for move in moves:
        game.step(move)
    return game


def connect_four():
    pytest.importorskip("pyspiel")
    from rein.envs.boards.open_spiel import OpenSpielEnv

    return OpenSpielEnv("connect_four", {"rows": 5, "columns": 4})


def go(size=6):
    pytest.importorskip("pyspiel")
    from rein.envs.boards.open_spiel import OpenSpielEnv

    return OpenSpielEnv("go", {"board_size": size})


def play(game, players, rng):
    game.reset(seed=int(rng.integers(1 << 30)))
    while game.outcome() is None:
        game.step(players[game.player_to_move()](game, rng))
    return game.outcome()


@pytest.mark.parametrize("make", [TicTacToeEnv, connect_four, go])
def test_looking_ahead_changes_nothing(make):
    game = game_of([0, 1], make)
    before = game.position_key(), game.legal_moves(), game._moves_made
    after = game.after(game.legal_moves()[0])
    further = after.after(after.legal_moves()[-1])
    assert (game.position_key(), game.legal_moves(), game._moves_made) == before
    assert len({game.position_key(), after.position_key(), further.position_key()}) == 3
    assert [one.player_to_move() for one in (game, after, further)] == [0, 1, 0]
    game.step(game.legal_moves()[0])
    assert game.position_key() == after.position_key()


@pytest.mark.parametrize("name", BOTS)
def test_bots_move_legally_to_the_end(name):
    rng = np.random.default_rng(0)
    for make in (TicTacToeEnv, connect_four):
        assert play(make(), (BOTS[name], BOTS["random"]), rng) in (-1.0, 0.0, 1.0)


@pytest.mark.parametrize("name", ["one_move_ahead", "minimax"])
def test_bots_win_and_block(name):
    rng = np.random.default_rng(0)
    assert {BOTS[name](game_of([0, 3, 1, 4]), rng) for _ in range(10)} == {2}, "x wins rather than blocks"
    assert {BOTS[name](game_of([0, 3, 8, 4, 2]), rng) for _ in range(10)} <= {5}, "o wins"
    assert {BOTS[name](game_of([0, 4, 1]), rng) for _ in range(10)} == {2}, "o blocks"


def test_minimax_never_loses_and_its_errors_cost():
    rng = np.random.default_rng(0)
    game, perfect = TicTacToeEnv(), Minimax()
    results = [play(game, (BOTS["random"], perfect), rng) for _ in range(40)]
    assert max(results) <= 0.0
    assert {play(game, (perfect, perfect), rng) for _ in range(5)} == {0.0}
    erring = [play(game, (Minimax(error=0.5), perfect), rng) for _ in range(40)]
    assert min(erring) == -1.0
    # The corner against the corner on the other side loses at once unless the middle is taken.
    assert {perfect(game_of([0]), rng) for _ in range(10)} == {4}
    with pytest.raises(ValueError, match="a share, from 0 to 1"):
        Minimax(error=2.0)
    with pytest.raises(ValueError, match="at least 1 move"):
        Minimax(depth=0)


def test_a_named_bot_is_the_opponent_of_an_environment():
    env = TicTacToeEnv(opponent="minimax", opponent_side=0)
    observation, _ = env.reset(seed=0)
    assert int(observation["to_play"]) == 1
    assert int(observation["board"][0].sum()) == 1
    with pytest.raises(ValueError, match="opponent must be one of"):
        TicTacToeEnv(opponent="grandmaster")


def test_positions_and_moves_in_text():
    game = game_of([0, 4])
    assert game.text() == " 3 x . .\n 2 . o .\n 1 . . .\n   a b c"
    assert game.notation().name(0) == "a3"
    assert game.notation().move(" C1 ", game.legal_moves()) == 8
    with pytest.raises(ValueError, match="'a3' is no legal move here: choose b3, c3"):
        game.notation().move("a3", game.legal_moves())
    assert game.notation().draw_counts({1: 12, 8: 3}).splitlines()[0] == " 3  . 12  ."
    columns = Notation("columns", 5, 4)
    assert [columns.name(move) for move in range(4)] == ["a", "b", "c", "d"]
    assert columns.draw_counts({0: 3, 3: 10}) == "    3       10\n    a  b  c  d"
    board = game_of([7, 36], go)
    assert board.text().splitlines()[-3:] == [" 2 . x . . . .", " 1 . . . . . .", "   a b c d e f"]
    assert board.notation().name(36) == "pass"
    assert board.notation().draw_counts({36: 5}).endswith("pass: 5")
