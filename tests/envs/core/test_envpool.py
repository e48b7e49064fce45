"""The EnvPool backend, where EnvPool is installed."""

import importlib.util
import logging

import pytest
import torch

from rein.envs import create_environment

FIRST, MID, LAST = 0, 1, 2
needs_envpool = pytest.mark.skipif(importlib.util.find_spec("envpool") is None, reason="needs the envpool extra")


@pytest.mark.skipif(importlib.util.find_spec("envpool") is not None, reason="EnvPool is installed")
def test_without_envpool_the_extra_is_named():
    with pytest.raises(ImportError, match=r"rein-rl\[envpool\]"):
        create_environment("CartPole-v1", 2, backend="envpool")


@needs_envpool
def test_episodes_end_by_time_limit_and_begin_anew_on_the_next_step():
    with create_environment(
        "CartPole-v1", 3, backend="envpool", seed=1, env_kwargs={"max_episode_steps": 3}
    ) as environment:
        environment.reset()
        action = torch.ones(3, dtype=torch.int64)
        steps = [environment.step(action) for _ in range(1)]
        kinds, discounts, rewards, actions = [], [], [], []
        for _ in range(4):
            step = environment.step(action)
            kinds.append(step.step_type.tolist()[0])
            discounts.append(step.discount.tolist()[0])
            rewards.append(step.reward.tolist()[0])
            actions.append(step.prev_action.tolist()[0])
    assert steps[0].observation.shape == (3, 4)
    assert kinds == [MID, LAST, FIRST, MID]
    assert discounts == [1.0, 1.0, 1.0, 1.0]
    assert rewards == [1.0, 1.0, 0.0, 1.0]
    assert actions == [1, 1, 0, 1]


@needs_envpool
def test_terminals_have_discount_zero():
    with create_environment("CartPole-v1", 2, backend="envpool", seed=1) as environment:
        environment.reset()
        at_the_end, before = [], []
        for _ in range(60):
            step = environment.step(torch.ones(2, dtype=torch.int64))
            at_the_end += step.discount[step.is_last()].tolist()
            before += step.discount[~step.is_last()].tolist()
        assert len(at_the_end) >= 4
        assert set(at_the_end) == {0.0}
        assert set(before) == {1.0}


@needs_envpool
def test_the_seed_is_obeyed():
    def first(seed, reseed=None):
        with create_environment("Pendulum-v1", 2, backend="envpool", seed=seed) as environment:
            if reseed is not None:
                environment.seed(reseed)
            return environment.reset().observation.clone()

    assert torch.equal(first(1), first(1))
    assert not torch.equal(first(1), first(2))
    assert torch.equal(first(1, reseed=2), first(2))


@needs_envpool
def test_resuming_cuts_all_episodes(caplog):
    action = torch.zeros(2, 1)
    with create_environment("Pendulum-v1", 2, backend="envpool", seed=1) as environment:
        environment.reset()
        environment.step(action)
        state = environment.get_state()
        with caplog.at_level(logging.WARNING, logger="rein.envs"):
            assert environment.set_state(state).step_type.tolist() == [LAST, LAST]
        assert "EnvPool" in caplog.text
        assert environment.step(action).step_type.tolist() == [FIRST, FIRST]


@needs_envpool
def test_unknown_ids_are_refused_with_similar_ones():
    with pytest.raises(ValueError, match="CartPole-v1"):
        create_environment("CartPole-v7", 2, backend="envpool")
