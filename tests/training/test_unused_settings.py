"""A setting of an algorithm that the run does not have is an error; one that a conf gives for later is not."""

import pytest

import rein
from rein.training.unused_settings import UnusedSettingError


def test_a_setting_of_an_agent_that_is_not_there_is_an_error_that_says_what_to_do():
    with pytest.raises(
        UnusedSettingError, match=r"rein\.make: 'Agent\.optimizer'.*no Agent.*PPOAlgorithm\.optimizer.*parts="
    ):
        rein.make("ppo", env="CartPole-v1", settings={"Agent.optimizer": rein.optimizers.Adam(lr=1e-3)})


def test_a_setting_of_another_algorithm_names_the_one_of_the_run():
    with pytest.raises(
        UnusedSettingError, match=r"'SacAlgorithm\.target_update_tau'.*no SacAlgorithm.*DqnAlgorithm\.target_update_tau"
    ):
        rein.make("dqn", env="CartPole-v1", settings={"SacAlgorithm.target_update_tau": 0.1})


def test_a_setting_of_an_agent_that_is_there_is_used():
    agent = rein.make(
        "ppo",
        env="CartPole-v1",
        parts=["rnd"],
        settings={"Agent.extrinsic_reward_coef": 0.5},
        num_parallel_environments=1,
    )
    assert type(agent.algorithm).__name__ == "Agent"
    agent.close()


def test_nothing_is_left_of_a_run_that_was_refused(tmp_path):
    with pytest.raises(UnusedSettingError):
        rein.make("ppo", env="CartPole-v1", directory=tmp_path / "run", settings={"Agent.name": "x"})
    assert not (tmp_path / "run").exists()
