"""A world that fails must cost one episode, not the run, and must be named."""

import functools
import os
import signal
import threading
import time

import pytest
import torch

from rein.envs import BatchEnvironment, EnvironmentFaultError, FaultPolicy, ProcessEnvironment, ThreadEnvironment
from rein.envs.single import EnvFactory

FIRST, MID, LAST = 0, 1, 2
RETURNED = ["nan", "nan_reward", "shape", "scalar", "dtype", "none"]
KINDS = {"raise": "raised", "hang": "hung", "kill": "died", "exit": "died"}


def make(backend, worlds, fault, tmp_path=None, batch_size=2, policy=None, **kwargs):
    flag = None if tmp_path is None else str(tmp_path / "failed")
    factory = EnvFactory(functools.partial(worlds.FaultyEnv, fault, flag=flag))
    return backend(factory, batch_size, seed=0, fault_policy=policy, **kwargs)


def run(environment, num_steps):
    steps = [environment.reset()]
    table = [(steps[0].step_type.tolist(), steps[0].observation[:, 1].tolist())]
    for _ in range(num_steps):
        step = environment.step(torch.zeros(environment.batch_size, dtype=torch.int64))
        table.append((step.step_type.tolist(), step.observation[:, 1].tolist()))
        assert torch.isfinite(step.observation).all()
        assert torch.isfinite(step.reward).all()
    return table


@pytest.mark.parametrize("fault", ["raise", *RETURNED])
@pytest.mark.parametrize("backend", [BatchEnvironment, ProcessEnvironment])
def test_a_failing_world_is_cut_named_and_made_anew_while_the_others_go_on(worlds, tmp_path, backend, fault):
    kwargs = {"num_workers": 1} if backend is ProcessEnvironment else {}
    with make(backend, worlds, fault, tmp_path, **kwargs) as environment:
        table = run(environment, 7)
        assert environment.fault_counts.tolist() == [1, 0]
        (found,) = environment.faults
    assert (found.env_id, found.step, found.kind) == (0, 2, "raised" if fault == "raise" else "invalid")
    # World 0: truncated at its second step, showing the first step's observation again, then a new episode.
    assert [kinds[0] for kinds, _ in table] == [FIRST, MID, LAST, FIRST, MID, MID, MID, MID]
    assert [counts[0] for _, counts in table] == [0, 1, 1, 0, 1, 2, 3, 4]
    # World 1 never noticed.
    assert [kinds[1] for kinds, _ in table] == [FIRST, MID, MID, MID, MID, LAST, FIRST, MID]
    assert [counts[1] for _, counts in table] == [0, 1, 2, 3, 4, 5, 0, 1]


def test_a_cut_episode_is_truncated_not_terminated(worlds, tmp_path):
    with make(BatchEnvironment, worlds, "raise", tmp_path) as environment:
        environment.reset()
        environment.step(torch.tensor([7, 7]))
        step = environment.step(torch.tensor([8, 8]))
        assert step.step_type.tolist() == [LAST, MID]
        assert step.discount.tolist() == [1.0, 1.0]
        assert step.reward.tolist() == [0.0, 2.0]
        assert step.prev_action.tolist() == [8, 8]


@pytest.mark.parametrize("fault", ["hang", "kill", "exit"])
def test_a_lost_worker_is_replaced_and_its_episodes_are_cut(worlds, tmp_path, fault):
    policy = FaultPolicy(step_timeout=1.0)
    with make(ProcessEnvironment, worlds, fault, tmp_path, 4, policy, num_workers=2) as environment:
        table = run(environment, 7)
        (found,) = environment.faults
        assert environment.fault_counts.sum() == 1
    assert found.kind == KINDS[fault]
    assert found.step == 2
    lost = (0, 1) if found.env_id < 2 else (2, 3)
    for row in range(4):
        kinds = [step_types[row] for step_types, _ in table]
        if row in lost:
            assert kinds == [FIRST, MID, LAST, FIRST, MID, MID, MID, MID]
        else:
            assert kinds == [FIRST, MID, MID, MID, MID, LAST, FIRST, MID]


def test_a_worker_killed_from_outside_while_idle_is_replaced(worlds):
    factory = EnvFactory(functools.partial(worlds.CountingEnv, 3))
    with ProcessEnvironment(factory, 2, seed=0, num_workers=1) as environment:
        environment.reset()
        action = torch.zeros(2, dtype=torch.int64)
        kinds = []
        for number in range(7):
            if number == 3:  # Both worlds have just ended: their next step must be FIRST, replaced or not.
                os.kill(environment.worker_pids[0], signal.SIGKILL)
            kinds.append(environment.step(action).step_type.tolist()[0])
        assert kinds == [MID, MID, LAST, FIRST, MID, MID, LAST]
        (found,) = environment.faults
    assert found.kind == "died"
    assert "idle" in found.message


@pytest.mark.parametrize("backend", [BatchEnvironment, ProcessEnvironment, ThreadEnvironment])
@pytest.mark.parametrize("fault", ["reset", "nan_reset"])
def test_a_failing_reset_is_tried_again_with_a_new_world(worlds, tmp_path, backend, fault):
    with make(backend, worlds, fault, tmp_path) as environment:
        table = run(environment, 8)
        assert environment.fault_counts.sum() == 1
    for row in range(2):
        assert [kinds[row] for kinds, _ in table] == [FIRST, MID, MID, MID, MID, LAST, FIRST, MID, MID]


@pytest.mark.parametrize("backend", [BatchEnvironment, ProcessEnvironment, ThreadEnvironment])
@pytest.mark.parametrize("fault", ["raise", "nan"])
def test_a_strict_policy_stops_at_the_first_fault(worlds, backend, fault):
    with make(backend, worlds, fault, policy=FaultPolicy(strict=True)) as environment:
        environment.reset()
        action = torch.zeros(2, dtype=torch.int64)
        environment.step(action)
        with pytest.raises(EnvironmentFaultError, match=r"environment 0 .* at step 2") as caught:
            environment.step(action)
        assert caught.value.fault.env_id == 0
        with pytest.raises(RuntimeError, match="reset"):
            environment.step(action)


@pytest.mark.parametrize("fault", ["hang", "kill"])
def test_a_strict_policy_stops_at_a_lost_worker(worlds, fault):
    policy = FaultPolicy(strict=True, step_timeout=0.5)
    with make(ProcessEnvironment, worlds, fault, policy=policy, num_workers=1) as environment:
        environment.reset()
        action = torch.zeros(2, dtype=torch.int64)
        environment.step(action)
        with pytest.raises(EnvironmentFaultError, match=KINDS[fault]):
            environment.step(action)


@pytest.mark.parametrize("backend", [BatchEnvironment, ProcessEnvironment])
def test_restarts_are_bounded(worlds, backend):
    with make(backend, worlds, "raise", policy=FaultPolicy(max_restarts=2)) as environment:
        with pytest.raises(EnvironmentFaultError, match="max_restarts=2"):
            run(environment, 30)
        assert environment.fault_counts[0] == 3


def test_a_world_that_cannot_be_made_says_so(worlds):
    def broken():
        raise OSError("no such rom")

    for backend in (BatchEnvironment, ProcessEnvironment, ThreadEnvironment):
        with pytest.raises(OSError, match="no such rom"):
            backend(EnvFactory(broken), 2)


def test_a_world_that_cannot_be_made_in_a_worker_says_so(worlds):
    parent, counting = os.getpid(), worlds.CountingEnv

    def only_here():
        if os.getpid() != parent:
            raise OSError("not in a worker")
        return counting()

    with pytest.raises(EnvironmentFaultError, match="not in a worker"):
        ProcessEnvironment(EnvFactory(only_here), 2)


def test_a_hanging_thread_ends_the_run_with_a_clear_message(worlds):
    class Slow(worlds.CountingEnv):
        def step(self, action):
            time.sleep(1.5)
            return super().step(action)

    environment = ThreadEnvironment(EnvFactory(Slow), 1, fault_policy=FaultPolicy(step_timeout=0.2))
    environment.reset()
    with pytest.raises(EnvironmentFaultError, match="backend='process'"):
        environment.step(torch.zeros(1, dtype=torch.int64))


def test_policies_with_impossible_numbers_are_refused():
    with pytest.raises(ValueError, match="max_restarts"):
        FaultPolicy(max_restarts=-1)
    with pytest.raises(ValueError, match="step_timeout"):
        FaultPolicy(step_timeout=0)


def test_a_function_that_cannot_travel_to_a_worker_is_named(worlds):
    lock, counting = threading.Lock(), worlds.CountingEnv

    def locked():
        with lock:
            return counting()

    with pytest.raises(TypeError, match=r"locked cannot be sent to worker processes .*backend='sync'"):
        ProcessEnvironment(EnvFactory(locked), 2)


def test_after_an_interrupted_step_a_reset_gives_a_defined_state_again(worlds, monkeypatch):
    factory = EnvFactory(functools.partial(worlds.CountingEnv, 3))
    action = torch.zeros(4, dtype=torch.int64)
    with ProcessEnvironment(factory, 4, seed=0, num_workers=2) as environment:
        environment.reset()
        environment.step(action)

        def interrupted(timeout):
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(environment._workers[0], "wait", interrupted)
            with pytest.raises(KeyboardInterrupt):
                environment.step(action)
        with pytest.raises(RuntimeError, match="reset"):
            environment.step(action)
        table = run(environment, 4)
        assert environment.fault_counts.sum() == 0
    assert [kinds for kinds, _ in table] == [[kind] * 4 for kind in (FIRST, MID, MID, LAST, FIRST)]
    assert [counts for _, counts in table] == [[count] * 4 for count in (0.0, 1.0, 2.0, 3.0, 0.0)]
