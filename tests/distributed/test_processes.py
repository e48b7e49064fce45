"""Collectors and gradient workers in other processes: what they share, how they die, what they leave behind."""

import os
import signal
import time
from typing import Any

import pytest
import torch

from rein.distributed import WorkerFailedError


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_collectors_die_and_are_replaced_and_nothing_is_left(build: Any) -> None:
    before = set(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else set()
    algorithm = build("dqn", collectors=2, backend="process", fragment_steps=64)
    rollout = algorithm.rollout
    team = rollout._team

    def pids() -> list[int]:
        return [worker.process.pid for worker in team._workers]

    for _ in range(3):
        algorithm.train_iter()
    first = pids()
    assert all(alive(pid) for pid in first)
    assert os.getpid() not in first
    os.kill(first[0], signal.SIGKILL)
    for _ in range(6):
        algorithm.train_iter()
    assert team.replaced == 1
    assert pids()[1] == first[1]
    assert pids()[0] != first[0]
    # Two fragments for each version, each delivered once, with a number that was asked for.
    assert rollout.delivered == 2 * rollout.version
    # What the dead one had not told the end of ends by a time limit: steps of different lives are never joined.
    buffer = algorithm.replay_buffer
    data, _ = buffer.gather_all()
    kinds = data.time_step.step_type
    follows = (kinds[:, :-1] != 2) & (kinds[:, 1:] == 0)
    assert not follows.any()
    team.ask(0, "no_such_method")
    with pytest.raises(WorkerFailedError, match="no_such_method"):
        team.next_answer([0])
    last = pids()
    algorithm.close_rollout()
    deadline = time.monotonic() + 10
    while any(alive(pid) for pid in last) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(alive(pid) for pid in last)
    if before:
        assert not {name for name in set(os.listdir("/dev/shm")) - before if name.startswith("torch_")}


@pytest.mark.slow
def test_gradients_and_rollouts_of_processes_train(build: Any) -> None:
    algorithm = build("ppo", kind="async", collectors=2, backend="process", gradient_workers=2)
    before = torch.nn.utils.parameters_to_vector(algorithm.parameters()).detach().clone()
    for _ in range(3):
        algorithm.train_iter()
    assert not torch.equal(before, torch.nn.utils.parameters_to_vector(algorithm.parameters()))
    assert algorithm.rollout.delivered == 3


@pytest.mark.slow
def test_processes_that_step_copies_of_their_own_follow_schedules(build: Any) -> None:
    algorithm = build("dqn", backend="process", gradient_workers=2, decentralised=True)
    team = algorithm.learning.compute_gradients.__self__._team
    for _ in range(4):
        algorithm.train_iter()
    for parameters in team.ask_all("parameters"):
        for mine, theirs in zip(algorithm.parameters(), parameters, strict=True):
            assert torch.equal(mine, theirs)
