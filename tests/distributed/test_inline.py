"""The scheme in one process: what it computes, cell by cell."""

import copy
import dataclasses
from typing import Any

import pytest
import torch

from rein import nest
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
    fragments = rollout.delivered
    assert fragments == rollout.version * (2 if kind == "sync" else 1)
    starts = 8 + algorithm.metrics.number_of_episodes
    assert fragments * fragment - starts <= algorithm.env_steps <= fragments * fragment
    if name != "ppo":
        buffer = algorithm.replay_buffer
        assert buffer is not None
        # Every iteration stores as many steps as without workers, whatever the length of fragments: a step is followed by
        # as many updates.
        assert buffer.total_size == 12 * 8 * 4


def test_a_fragment_that_comes_again_is_refused(build: Any) -> None:
    rollout = build("ppo", kind="sync", collectors=2).rollout
    fragments = rollout._gather(4)
    for again in fragments:
        with pytest.raises(RuntimeError, match="came twice"):
            rollout._take(again)
    with pytest.raises(RuntimeError, match="from nowhere"):
        rollout._take(fragments[0]._replace(number=99, version=rollout.version + 1))
    assert rollout.delivered == 2


def test_asynchronous_fragments_are_at_most_a_round_old_and_too_old_ones_are_dropped(build: Any) -> None:
    algorithm = build("ppo", kind="async", collectors=3)
    rollout, lags = algorithm.rollout, []
    take = rollout._take
    rollout._take = lambda fragment: (lags.append(rollout.version - fragment.version), take(fragment))
    for _ in range(7):
        algorithm.train_iter()
    assert lags == [0, 1, 2, 3, 3, 3, 3]
    several = build("dqn", kind="async", collectors=3, max_lag=2, fragment_steps=48)
    assert several.rollout._scheme.fragments_per_update == 2
    for _ in range(9):
        several.train_iter()
    assert several.rollout.dropped == 0
    assert several.rollout.delivered == 2 * several.rollout.version
    assert several.replay_buffer.total_size == pytest.approx(9 * 8 * 4, abs=4)
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


def test_saving_neither_waits_for_asynchronous_collectors_nor_loses_what_they_do(build: Any) -> None:
    saved, plain = (build("dqn", seed=3, kind="async", collectors=2, fragment_steps=48) for _ in range(2))
    for _ in range(9):
        plain.train_iter()
    for _ in range(9):
        saved.train_iter()
        under_way = saved.rollout._team.waiting_for
        state = saved.training_state()["rollout"]
        assert saved.rollout._team.waiting_for == under_way
        assert len(under_way) == 2
    assert saved.rollout.delivered == plain.rollout.delivered
    begun = []
    for _ in range(2):
        resumed = build("dqn", seed=3, kind="async", collectors=2, fragment_steps=48).rollout
        resumed.load_state_dict(state)
        begun += [worker.service.target._env.current_time_step().observation for worker in resumed._team._workers]
        state = {**state, "numbers": state["numbers"] + 1}
    # Nobody lives through the same episodes again, however often a run is resumed.
    assert len({tuple(one.flatten().tolist()) for one in begun}) == 4


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
        algorithm = build("dqn", kind="async", collectors=2, fragment_steps=48)
        algorithm.load_training_state(state)
        algorithm.observe_rollout_for_replay = lambda exp: stored.append(exp.time_step)
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


@pytest.mark.parametrize("name", ["ppo", "dqn"])
def test_slow_collectors_stop_early_with_at_least_their_share(build: Any, name: str) -> None:
    algorithm = build(name, collectors=4, fragment_steps=48, fraction_workers=0.5, fraction_samples=0.5)
    rollout, lengths = algorithm.rollout, []
    take = rollout._take
    rollout._take = lambda fragment: (lengths.append(len(fragment.episodes.step_type)), take(fragment))
    for _ in range(4):
        algorithm.train_iter()
    # One after the other: the last two are told to stop before they begin.
    whole = 16 if name == "ppo" else 12
    assert lengths[:4] == [whole, whole, whole // 2, whole // 2]


def test_what_is_collected_in_pieces_hangs_together(build: Any) -> None:
    rollout = build("ppo", seed=1, collectors=2, fraction_workers=0.99, fraction_samples=0.25).rollout
    rollout._backend.stop_early = lambda number: None
    whole = rollout.collect(16, with_grad=False)
    assert len(whole.step_type) == 17
    goes_on = whole.step_type[1:] != StepType.FIRST
    assert goes_on.float().mean() > 0.8
    assert torch.equal(whole.time_step.prev_action[1:][goes_on], whole.rollout_info.action[:-1][goes_on])
    # No step is there twice.
    assert not (whole.time_step.observation[1:] == whole.time_step.observation[:-1]).all(-1).any()


def test_a_rollout_that_ended_early_teaches_as_much_as_it_has(build: Any) -> None:
    """Advantages of the shorter rollout are those that it has alone."""
    from rein.algorithms.on_policy.ppo import ppo_info
    from rein.distributed.fragments import padded
    from rein.framework.steps import batch_major

    algorithm = build("ppo", collectors=2)
    alone = algorithm.rollout._all_fragments(6)[0]
    beside = padded(alone.experience, 11)
    assert len(beside.step_type) == 11
    assert (beside.step_type[6:] == StepType.LAST).all()
    infos = []
    for experience in (alone.experience, beside):
        whole = alone._replace(experience=experience).with_distributions()
        infos.append(batch_major(ppo_info(algorithm._loss, batch_major(whole.rollout_info)).advantages))
    torch.testing.assert_close(infos[0][:6], infos[1][:6])
    assert (infos[1][6:] == 0).all()


def test_a_worker_that_hangs_is_replaced_while_others_answer() -> None:
    from rein.distributed.team import Team

    class Workers:
        """Worker 0 never answers, worker 1 always does; every look at them takes a second."""

        def __init__(self) -> None:
            self.started = 0

        def start(self, task: Any) -> str:
            self.started += 1
            return f"{task}{self.started}"

        def ask(self, worker: Any, method: str) -> None: ...

        def wait(self, workers: list[str], timeout: float) -> list[str]:
            clock[0] += 1.0
            return [one for one in workers if one[0] == "b" or self.started > 2]

        def answer(self, worker: str) -> str:
            return worker

        def stop(self, worker: str) -> None: ...

    import rein.distributed.team as module

    clock = [0.0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.time, "monotonic", lambda: clock[0])
        team = Team(Workers(), "ab", 3.0, 1, lambda index, count: "ab"[index])
        team.ask(0, "collect")
        answers = []
        while team.replaced == 0 and len(answers) < 10:
            team.ask(1, "collect")
            answers.append(team.next_answer()[0])
        assert team.replaced == 1
        assert 0 in team.lost
        assert answers.count(1) >= 2


def test_workers_that_step_copies_of_their_own_stay_equal_bit_by_bit(build: Any) -> None:
    one, several = build("dqn"), build("dqn", gradient_workers=2, decentralised=True)
    several.load_state_dict(one.state_dict())
    team = several.learning.compute_gradients.__self__._team
    for number in range(4):
        batch = sampled(one)
        if number == 2:
            # One that dies goes on where the others are.
            team._questions[1] = ("parameters",)
            team._replace(1, "was killed")
            team.next_answer()
        found = several.compute_gradients([Batch(batch)])
        one.apply_gradients(one.compute_gradients(batch))
        several.apply_gradients(found)
    for parameters in team.ask_all("parameters"):
        for mine, theirs in zip(several.parameters(), parameters, strict=True):
            assert torch.equal(mine, theirs)
    torch.testing.assert_close(vector(several), vector(one), rtol=0, atol=1e-6)


def test_burn_in_brings_stored_states_up_to_date(build: Any) -> None:
    """What is learnt after the burn-in is what would be learnt there from the states that the first steps lead to."""
    from rein.framework.updating.burn_in import burned_in

    algorithm = build("r2d2", collectors=2, fragment_steps=64, shards=0)
    batch = Batch(sampled(algorithm))
    rest = burned_in(algorithm, batch, 8)
    length = batch.experience.step_type.shape[1]
    assert rest.experience.step_type.shape[1] == length - 8
    plain = algorithm.learning.settings
    algorithm.set_update_settings(dataclasses.replace(plain, burn_in_steps=0, priority_replay=False))
    expected = algorithm.learning.compute_gradients([rest])
    algorithm.set_update_settings(dataclasses.replace(plain, burn_in_steps=8, priority_replay=False))
    found = algorithm.learning.compute_gradients([batch])
    for a, b in zip(found.values, expected.values, strict=True):
        assert torch.equal(a, b)
    # The states do depend on the first steps.
    other = batch.experience._replace(
        time_step=batch.experience.time_step._replace(observation=batch.experience.time_step.observation + 1)
    )
    assert not torch.equal(
        torch.cat([one.flatten() for one in nest.flatten(burned_in(algorithm, Batch(other), 8).experience.state)]),
        torch.cat([one.flatten() for one in nest.flatten(rest.experience.state)]),
    )
    with pytest.raises(ValueError, match="leave at least 2"):
        burned_in(algorithm, batch, length - 1)
