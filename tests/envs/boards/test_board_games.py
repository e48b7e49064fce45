import pickle
import warnings

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from rein.envs.boards import TicTacToeEnv
from rein.envs.suites import load

# Player 0 takes the top row while player 1 plays elsewhere.
TOP_ROW = [0, 3, 1, 4, 2]
# Player 1 wins with the middle column.
MIDDLE_COLUMN = [0, 1, 2, 4, 6, 7]
DRAW = [0, 1, 2, 4, 3, 5, 7, 6, 8]


def play(env, moves, seed=0):
    env.reset(seed=seed)
    return [env.step(move) for move in moves]


@pytest.mark.parametrize(("moves", "reward"), [(TOP_ROW, 1.0), (MIDDLE_COLUMN, -1.0), (DRAW, 0.0)])
def test_self_play_rewards_are_for_player_0(moves, reward):
    steps = play(TicTacToeEnv(), moves)
    assert [step[1] for step in steps] == [0.0] * (len(moves) - 1) + [reward]
    assert [step[2] for step in steps] == [False] * (len(moves) - 1) + [True]


@pytest.mark.parametrize(("moves", "reward"), [(TOP_ROW, 1.0), (MIDDLE_COLUMN, 1.0), (DRAW, 0.0)])
def test_mover_view_rewards_whoever_wins(moves, reward):
    assert play(TicTacToeEnv(reward_view="mover"), moves)[-1][1] == reward


def test_observation_tells_turn_moves_and_stones():
    env = TicTacToeEnv()
    observation, _ = env.reset(seed=0)
    assert (observation["to_play"], observation["steps"]) == (0, 0)
    assert observation["valid_action_mask"].all()
    observation = play(env, [4, 0])[-1][0]
    assert (observation["to_play"], observation["steps"]) == (0, 2)
    assert np.flatnonzero(~observation["valid_action_mask"]).tolist() == [0, 4]
    assert np.argwhere(observation["board"]).tolist() == [[0, 1, 1], [1, 0, 0]]
    observation = env.step(8)[0]
    assert observation["to_play"] == 1
    assert (observation["board"][2] == 1).all()
    assert observation["to_play"].dtype == np.int8
    assert observation["steps"].dtype == np.int32
    assert observation["valid_action_mask"].dtype == bool


@pytest.mark.parametrize(("moves", "reward"), [([0, 0], 1.0), ([0, 1, 1], -1.0)])
def test_an_illegal_move_loses(moves, reward):
    *_, last = play(TicTacToeEnv(), moves)
    assert last[1:3] == (reward, True)


def test_an_illegal_move_can_raise_and_a_finished_game_is_over():
    env = TicTacToeEnv(illegal_move="raise")
    with pytest.raises(ValueError, match=r"illegal move 0; legal moves are \[1, 2"):
        play(env, [0, 0])
    play(env, TOP_ROW)
    with pytest.raises(ValueError, match="reset"):
        env.step(8)


@pytest.mark.parametrize("side", [0, 1])
def test_an_opponent_answers_and_the_agent_keeps_its_side(side):
    def first_free(observation, rng):
        assert observation["to_play"] == side
        return int(observation["valid_action_mask"].argmax())

    env = TicTacToeEnv(opponent=first_free, opponent_side=side, reward_view="mover")
    observation, _ = env.reset(seed=0)
    assert observation["steps"] == 1 - side
    for move in (8, 7, 6):
        observation, reward, over, *_ = env.step(move)
        assert over or observation["to_play"] == 1 - side
        if over:
            break
    # Whoever begins completes a row first: the opponent at the top, or the agent at the bottom.
    assert reward == (-1.0 if side == 0 else 1.0)


def test_player_0_view_against_an_opponent_does_not_turn():
    first_free = lambda observation, rng: int(observation["valid_action_mask"].argmax())  # noqa: E731
    env = TicTacToeEnv(opponent=first_free, opponent_side=0)
    steps = play(env, [8, 7])
    assert steps[-1][1:3] == (1.0, True)


def test_random_sides_and_opponents_follow_the_seed():
    env = TicTacToeEnv(opponent="random", opponent_side="random")
    sides, games = set(), []
    for seed in [*range(20), 0]:
        observation, _ = env.reset(seed=seed)
        sides.add(int(observation["to_play"]))
        board = [observation["board"]]
        over = False
        while not over:
            observation, _, over, *_ = env.step(int(observation["valid_action_mask"].argmax()))
            board.append(observation["board"])
        games.append(np.stack(board[-1:]).tobytes())
    assert sides == {0, 1}
    assert games[0] == games[-1]


def test_random_games_are_won_by_the_first_player_as_often_as_known():
    env = TicTacToeEnv()
    rng = np.random.default_rng(0)
    results = []
    for _ in range(600):
        observation, _ = env.reset()
        over = False
        while not over:
            move = int(rng.choice(np.flatnonzero(observation["valid_action_mask"])))
            observation, reward, over, *_ = env.step(move)
        results.append(reward)
    shares = [np.mean(np.array(results) == value) for value in (1, -1, 0)]
    # 0.585, 0.288, 0.127 for uniformly random play.
    assert shares == pytest.approx([0.585, 0.288, 0.127], abs=0.06)


def test_larger_boards_need_their_own_number_in_a_row():
    env = TicTacToeEnv(size=5, in_a_row=4)
    diagonal = [3, 20, 7, 21, 11, 22, 15]
    assert play(env, diagonal)[-1][1:3] == (1.0, True)
    with pytest.raises(ValueError, match="in_a_row"):
        TicTacToeEnv(size=3, in_a_row=4)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("opponent", "strong"),
        ("reward_view", "both"),
        ("illegal_move", "ignore"),
        ("opponent_side", 2),
        ("render_mode", "human"),
    ],
)
def test_unknown_options_are_refused(option, value):
    with pytest.raises(ValueError, match=option):
        TicTacToeEnv(**{option: value})


@pytest.mark.parametrize("name", ["tic_tac_toe", "connect_four", "go", "othello"])
def test_boards_pass_the_checker_render_and_pickle(name):
    env = load(f"boards/{name}", render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(env.unwrapped, skip_render_check=True)
    observation, _ = env.reset(seed=0)
    for _ in range(3):
        legal = np.flatnonzero(observation["valid_action_mask"])
        observation, *_ = env.step(int(legal[len(legal) // 2]))
    frame = env.render()
    assert frame.dtype == np.uint8
    assert frame.std() > 0
    clone = pickle.loads(pickle.dumps(env))
    move = int(observation["valid_action_mask"].argmax())
    assert str(clone.step(move)) == str(env.step(move))


def test_connect_four_stacks_columns_and_wins_by_four():
    pytest.importorskip("pyspiel")
    env = load("boards/connect_four")
    steps = play(env, [3, 2, 3, 2, 3, 2])
    board = steps[-1][0]["board"]
    assert board.shape == (3, 6, 7)
    assert board[0, :, 3].tolist() == [1, 1, 1, 0, 0, 0]
    assert board[1, :, 2].tolist() == [1, 1, 1, 0, 0, 0]
    assert env.step(3)[1:3] == (1.0, True)
    lost = play(env, [0, 2, 0, 2, 1, 2, 1, 2])
    assert lost[-1][1:3] == (-1.0, True)


def test_go_captures_passes_and_komi():
    pytest.importorskip("pyspiel")
    env = load("boards/go", board_size=5, komi=0.5)
    passing = 25
    assert env.action_space.n == 26
    # White on the corner point 0 is captured by black on 1 and 5.
    board = play(env, [1, 0, 5])[-1][0]["board"]
    assert (board[0].sum(), board[1].sum()) == (2, 0)
    ended = play(env, [passing, passing])
    assert ended[-1][1:3] == (-1.0, True)
    assert play(env, [12, passing, passing])[-1][1:3] == (1.0, True)


def test_othello_planes_belong_to_their_players():
    pytest.importorskip("pyspiel")
    env = load("boards/othello")
    observation, _ = env.reset(seed=0)
    observation, *_ = env.step(int(observation["valid_action_mask"].argmax()))
    assert observation["board"].sum(axis=(1, 2)).tolist() == [4.0, 1.0, 64.0]


def test_games_of_chance_or_hidden_cards_are_refused():
    pytest.importorskip("pyspiel")
    with pytest.raises(ValueError, match="perfect information"):
        load("boards/kuhn_poker")
