"""Hindsight as a part: goals of any world that can compute rewards, for algorithms that replay."""

import pytest
import torch

import rein
from rein.transforms import HindsightExperienceTransformer, SequentialDataTransformer
from tests.training.any_environment import short_settings


def make(algorithm, env="rein/Reach-v0", **more):
    settings = short_settings(algorithm) | more.pop("settings", {})
    return rein.make(algorithm, env=env, parts=["hindsight=0.5"], settings=settings, **more)


@pytest.mark.parametrize(("algorithm", "env"), [("td3", "rein/Reach-v0"), ("dqn", "rein/BitFlip-v0")])
def test_rewards_of_new_goals_are_those_of_the_world(algorithm, env, recwarn):
    with make(algorithm, env) as agent:
        agent.train(40)
        transformer = agent.algorithm.data_transformer
        assert isinstance(transformer, HindsightExperienceTransformer)
        goals = torch.rand(3, 2, agent.policy.observation_spec["desired_goal"].shape[0]).round()
        rewards = transformer._reward_fn(goals, goals)
        assert rewards.shape == (3, 2)
        assert (transformer._reward_fn(goals, 1 - goals) < rewards).all()
    assert not [one for one in recwarn if "gives other rewards" in str(one.message)]


def test_other_transformers_come_after_it():
    with make("td3", settings={"TrainerConfig.data_transformer_ctor": "RewardClipping"}) as agent:
        assert isinstance(agent.algorithm.data_transformer, SequentialDataTransformer)


def test_it_comes_back_with_a_saved_agent(tmp_path):
    with make("td3") as agent:
        agent.train(30)
        agent.save(tmp_path / "agent")
    loaded = rein.load(tmp_path / "agent")
    loaded.train(10)
    assert isinstance(loaded.algorithm.data_transformer, HindsightExperienceTransformer)
    loaded.close()


def test_what_cannot_be_relabelled_is_refused():
    with pytest.raises(ValueError, match="replays nothing: use dqn"):
        make("ppo")
    with pytest.raises(ValueError, match="Pendulum-v1 has no compute_reward"):
        make("td3", "Pendulum-v1")
