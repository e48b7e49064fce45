"""Games of PettingZoo by the board interface."""

import numpy as np
import pytest

import rein
from rein.envs.boards.pettingzoo import PettingZooEnv
from rein.envs.suites import load
from rein.transforms import SelfPlayTransformer

pytest.importorskip("pettingzoo.classic.tictactoe_v3")


def test_it_plays_as_our_own_game_does():
    theirs, own = load("pettingzoo/tictactoe_v3"), load("boards/tic_tac_toe")
    turned = np.arange(9).reshape(3, 3).T.ravel()  # they number the cells by columns
    rng = np.random.default_rng(0)
    for seed in range(20):
        seen, expected = theirs.reset(seed=seed)[0], own.reset(seed=seed)[0]
        is_over = False
        while not is_over:
            np.testing.assert_array_equal(seen["board"].transpose(0, 2, 1), expected["board"])
            np.testing.assert_array_equal(seen["valid_action_mask"][turned], expected["valid_action_mask"])
            move = int(rng.choice(np.flatnonzero(expected["valid_action_mask"])))
            seen, reward, is_over, _, _ = theirs.step(turned[move])
            expected, expected_reward, expected_over, _, _ = own.step(move)
            assert (reward, is_over) == (expected_reward, expected_over)


def test_a_game_goes_on_from_its_list_of_moves():
    env = load("pettingzoo/connect_four_v3", opponent="random")
    env.reset(seed=3)
    env.step(3)
    other = load("pettingzoo/connect_four_v3")
    other.reset(seed=0)
    other.moves = list(env.moves)
    np.testing.assert_array_equal(other._board(), env._board())


@pytest.mark.parametrize("as_module", [True, False])
def test_games_are_taken_as_environments_and_played_against_oneself(as_module):
    from pettingzoo.classic import tictactoe_v3

    env = tictactoe_v3 if as_module else tictactoe_v3.env()
    settings = {"TrainerConfig.evaluate": False, "TrainerConfig.initial_collect_steps": 20}
    with rein.make("dqn", env=env, settings=settings) as agent:
        agent.train(30)
        assert isinstance(agent.algorithm.data_transformer, SelfPlayTransformer)
        assert agent._trainer.env.fault_counts.sum() == 0


def test_what_is_no_board_game_is_refused():
    from pettingzoo.classic import tictactoe_v3

    with pytest.raises(TypeError, match="give the game itself, or its module"):
        rein.make("ppo", env=lambda: tictactoe_v3.env())
    with pytest.raises(TypeError, match="must return a game of PettingZoo"):
        PettingZooEnv(lambda: 3)
    with pytest.raises(ValueError, match=r"no game of pettingzoo.classic 'pettingzoo/tictacto_v3'"):
        load("pettingzoo/tictacto_v3")
