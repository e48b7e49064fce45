import pytest

from rein.config import config, fresh_configs
from rein.envs.suites import load
from rein.envs.toy.chain import ChainEnv
from rein.envs.wrappers import FrameSkip, TimeLimit


@pytest.fixture(autouse=True)
def nothing_configured():
    with fresh_configs():
        yield


def test_wrappers_of_our_own_and_of_gymnasium_take_values_from_a_conf():
    config("FrameSkip", skip=2)
    config("TimeLimit", max_episode_steps=1)
    env = TimeLimit(FrameSkip(ChainEnv()))
    env.reset(seed=0)
    observation, _, _, truncated, _ = env.step(1)
    assert observation.argmax() == 2
    assert truncated


def test_worlds_and_their_preprocessing_take_values_from_a_conf():
    config("ChainEnv", num_states=9)
    config("GridObservation", view="image")
    config("DeepMindAtari", screen_size=42)
    config("BoardGameEnv", opponent="random", opponent_side=0)
    assert load("rein/Chain-v0").observation_space.shape == (9,)
    assert load("rein/Chain-v0", num_states=3).observation_space.shape == (3,)
    assert load("MiniGrid-Empty-5x5-v0").observation_space.shape == (3, 7, 7)
    assert load("Pong").observation_space.shape == (1, 42, 42)
    for game in ("tic_tac_toe", "connect_four"):
        assert load(f"boards/{game}").reset(seed=0)[0]["steps"] == 1
