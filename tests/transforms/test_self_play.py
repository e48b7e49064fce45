"""Positions, rewards and values as the one who moves sees them."""

import pytest
import torch

import rein
from rein.envs import create_environment
from rein.ops import trajectory_discounted_return
from rein.specs import TensorSpec
from rein.transforms import SelfPlayTransformer

_FIELDS = ("reward", "discount", "step_type")


def played(moves):
    """The time steps of one game of tic-tac-toe, transformed, the reset first."""
    with create_environment("boards/tic_tac_toe", 1, "sync", seed=0, num_slots=20) as env:
        transformer = SelfPlayTransformer(env.observation_spec)
        steps = [env.reset(), *(env.step(torch.tensor([move])) for move in moves)]
        return [transformer.transform_timestep(one, ())[0] for one in steps]


def test_stones_of_the_one_who_moves_come_first():
    first, second, third = played([0, 4])
    assert first.observation["board"][0, :2].sum() == 0
    assert second.observation["board"][0, :2, 0, 0].tolist() == [0, 1]  # the other has moved
    assert third.observation["board"][0, :2, 0, 0].tolist() == [1, 0]
    assert third.observation["board"][0, :2, 1, 1].tolist() == [0, 1]


@pytest.mark.parametrize("moves", [[0, 3, 1, 4, 2], [8, 0, 3, 1, 4, 2]])
def test_who_wins_by_a_move_earns_it_whichever_side_it_is(moves):
    steps = played(moves)
    assert [float(one.reward) for one in steps] == [0.0] * len(moves) + [1.0]
    assert [float(one.discount) for one in steps] == [1.0] + [-1.0] * (len(moves) - 1) + [0.0]


def test_other_worlds_are_refused():
    with pytest.raises(ValueError, match="lack board, steps, to_play"):
        SelfPlayTransformer(TensorSpec((3,)))


def test_board_games_are_played_against_oneself_unless_there_is_an_opponent():
    def transformer(**settings):
        with rein.make("ppo", env="boards/tic_tac_toe", settings=settings) as agent:
            return agent.algorithm.data_transformer

    assert isinstance(transformer(), SelfPlayTransformer)
    assert not isinstance(transformer(**{"create_environment.env_kwargs": {"opponent": "random"}}), SelfPlayTransformer)


@pytest.mark.learning
def test_ppo_learns_tic_tac_toe_from_itself():
    from rein.envs.suites import load

    with rein.make("ppo", env="boards/tic_tac_toe", settings={"TrainerConfig.evaluate": False}) as agent:
        agent.train(200_000)
        lost = 0
        for game in range(200):
            env = load("boards/tic_tac_toe", opponent="random", opponent_side=game % 2, reward_view="mover")
            observation, _ = env.reset(seed=game)
            is_over = False
            while not is_over:
                observation, reward, is_over, _, _ = env.step(int(agent.predict(observation)))
            lost += reward < 0
    assert lost <= 10


def test_a_win_is_good_for_the_winner_and_bad_for_the_other_at_each_move():
    steps = played([0, 3, 1, 4, 2])
    reward, discount, step_type = (torch.cat([getattr(one, name) for one in steps])[:, None] for name in _FIELDS)
    returns = trajectory_discounted_return(reward, torch.zeros_like(reward), step_type, 0.5 * discount)
    assert returns[:5, 0].tolist() == [1 / 16, -1 / 8, 1 / 4, -1 / 2, 1.0]
