"""The scheme in one process: what it computes, cell by cell."""

import copy
from typing import Any

import pytest
import torch

from rein.data_structures import Experience, StepType
from rein.distributed.rollout import SchemeRollout
from rein.framework import Batch
from rein.runtime.run import current_run


def vector(algorithm: Any) -> torch.Tensor:
    return torch.nn.utils.parameters_to_vector(algorithm.parameters()).detach().clone()


def test_the_central_scheme_is_the_plain_trainer_bit_for_bit(build: Any) -> None:
    results = []
    for scheme in ({}, {"kind": "sync", "collectors": 1, "backend": "inline"}):
        algorithm = build("ppo", seed=3, **scheme)
        for _ in range(3):
            algorithm.train_iter()
        results.append(vector(algorithm))
    assert torch.equal(*results)


@pytest.mark.parametrize("kind", ["sync", "async"])
@pytest.mark.parametrize(("name", "env"), [("ppo", "CartPole-v1"), ("dqn", "CartPole-v1"), ("sac", "Pendulum-v1")])
def test_collectors_feed_every_kind_of_algorithm(build: Any, kind: str, name: str, env: str) -> None:
    algorithm = build(name, env, kind=kind, collectors=2, fragment_steps=48)
    before = vector(algorithm)
    for _ in range(12):
        algorithm.train_iter()
    rollout = algorithm.rollout
    assert isinstance(rollout, SchemeRollout)
    assert not torch.equal(vector(algorithm), before)
    fragment = 16 * 4 if name == "ppo" else 12 * 4
    fragments = len(rollout._delivered)
    assert fragments == rollout.version * (2 if kind == "sync" else 1)
    starts = 8 + algorithm.metrics.number_of_episodes
    assert fragments * fragment - starts <= algorithm.env_steps <= fragments * fragment
    if name != "ppo":
        buffer = algorithm.replay_buffer
        assert buffer is not None
        # Every iteration stores 8 steps of each environment that reports, whatever the length of fragments.
        assert buffer.total_size == 12 * 8 * (8 if kind == "sync" else 4)


def test_asynchronous_fragments_are_at_most_a_round_old_and_too_old_ones_are_dropped(build: Any) -> None:
    algorithm = build("ppo", kind="async", collectors=3)
    rollout, lags = algorithm.rollout, []
    take = rollout._take
    rollout._take = lambda fragment: (lags.append(rollout.version - fragment.version), take(fragment))
    for _ in range(7):
        algorithm.train_iter()
    assert lags == [0, 1, 2, 3, 3, 3, 3]
    strict = build("ppo", kind="async", collectors=3, max_lag=0)
    for _ in range(3):
        strict.train_iter()
    assert strict.rollout.dropped > 0


def test_collectors_act_with_the_weights_that_were_published(build: Any) -> None:
    algorithm = build("ppo", collectors=2)
    with torch.no_grad():
        for parameter in algorithm.parameters():
            parameter.mul_(2.0)
    algorithm.rollout.collect(4, with_grad=False)
    for worker in algorithm.rollout._team._workers:
        assert torch.equal(vector(worker.service.target._algorithm), vector(algorithm))


def test_a_saved_run_goes_on_exactly(build: Any) -> None:
    for name in ("ppo", "dqn"):
        algorithm = build(name, collectors=2, fragment_steps=48)
        for _ in range(9):
            algorithm.train_iter()
        state = algorithm.training_state()
        weights, numbers = copy.deepcopy(dict(algorithm.state_dict())), copy.deepcopy(current_run().state_dict())
        for _ in range(6):
            algorithm.train_iter()
        other = build(name, seed=5, collectors=2, fragment_steps=48)
        other.load_training_state(state)
        other.load_state_dict(weights)
        current_run().load_state_dict(numbers)
        assert other.env_steps > 0
        for _ in range(6):
            other.train_iter()
        assert other.env_steps == algorithm.env_steps
        assert torch.equal(vector(other), vector(algorithm))


@pytest.mark.parametrize("how", ["saved", "too old"])
def test_steps_before_and_after_a_fragment_that_is_missing_are_not_joined(build: Any, how: str) -> None:
    lag = {"max_lag": 1} if how == "too old" else {}
    algorithm = build("dqn", kind="async", collectors=2, fragment_steps=48, **lag)
    stored, store = [], algorithm.observe_rollout_for_replay
    algorithm.observe_rollout_for_replay = lambda exp: (stored.append(exp.time_step), store(exp))
    for _ in range(6):
        algorithm.train_iter()
    if how == "saved":
        state = algorithm.training_state()
        assert state["rollout"]["skipped"] == [0, 1]
    else:
        algorithm.rollout.version += 5
        algorithm.rollout._stock.clear()
    for _ in range(9):
        algorithm.train_iter()
    # Poles fall long before a time limit, so only what was cut short ends with a discount.
    cut = [(steps.step_type == StepType.LAST) & (steps.discount == 1) for steps in stored]
    assert any(one.any() for one in cut)


def sampled(algorithm: Any) -> Experience:
    while not algorithm.learning.has_enough():
        algorithm.unroll(8)
    return algorithm.learning.sample(algorithm.replay_buffer)


def test_workers_that_share_a_batch_make_the_update_of_one(build: Any) -> None:
    one, several = build("dqn"), build("dqn", gradient_workers=4)
    several.load_state_dict(one.state_dict())
    for _ in range(3):
        batch = sampled(one)
        expected = one.compute_gradients(batch)
        found = several.compute_gradients([Batch(batch)])
        for a, b in zip(found.values, expected.values, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-6)
        torch.testing.assert_close(found.loss_info.loss, expected.loss_info.loss.detach(), rtol=1e-5, atol=1e-6)
        one.apply_gradients(expected)
        several.apply_gradients(found)
    torch.testing.assert_close(vector(several), vector(one), rtol=0, atol=1e-6)


@pytest.mark.parametrize("gradients", ["sync", "async"])
@pytest.mark.parametrize(("kind", "collectors"), [("sync", 1), ("async", 2)])
def test_gradient_workers_train(build: Any, gradients: str, kind: str, collectors: int) -> None:
    algorithm = build(
        "dqn", kind=kind, collectors=collectors, gradient_workers=2, gradients=gradients, fragment_steps=48
    )
    before = vector(algorithm)
    for _ in range(8):
        algorithm.train_iter()
    assert not torch.equal(vector(algorithm), before)
