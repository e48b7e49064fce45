"""The number of threads follows what iterations take, on an imagined machine."""

import pytest

from rein.runtime import device
from rein.training.threads import PAUSE, ThreadChoice, threads_given


class Machine:
    """Cores, neighbours, and a clock that iterations advance."""

    def __init__(self, cores: int, seconds: dict[int, float], neighbours: int = 0) -> None:
        self.cores, self.seconds, self.neighbours = cores, seconds, neighbours
        self.now, self.idle, self.threads = 0.0, 0.0, 0
        self.choice = ThreadChoice(cores, set_threads=self.set_threads, idle=lambda: self.idle, clock=lambda: self.now)
        self.iteration = 0

    def set_threads(self, threads: int) -> None:
        self.threads = threads

    def iterate(self, seconds: float, trained: int = 1) -> None:
        """Iterates for a while; threads that get no core of their own wait for each other."""
        end = self.now + seconds
        while self.now < end:
            fits = self.threads + self.neighbours <= self.cores or self.threads == 1
            took = self.seconds[self.threads] * (1 if fits else 30)
            self.now += took
            self.idle += took * max(0, self.cores - self.threads - self.neighbours)
            self.choice.see(self.iteration, took, trained)
            self.iteration += 1


QUICKER_WITH_TWO = {1: 0.02, 2: 0.013}


def test_two_threads_are_kept_where_they_are_faster():
    machine = Machine(2, QUICKER_WITH_TWO)
    machine.iterate(5)
    assert machine.threads == machine.choice.threads == 2
    assert [threads for _, threads in machine.choice.changes] == [2]


@pytest.mark.parametrize("two", [0.0195, 0.02, 0.04])
def test_one_thread_is_kept_where_two_bring_little_or_less(two):
    machine = Machine(2, {1: 0.02, 2: two})
    machine.iterate(100)
    assert machine.threads == 1
    assert len(machine.choice.changes) == 1


def test_more_cores_are_tried_in_doubling_steps_until_they_bring_nothing():
    seconds = {1: 0.04, 2: 0.02, 4: 0.011, 6: 0.012}
    machine = Machine(6, seconds)
    machine.iterate(20)
    assert machine.threads == 4
    assert machine.choice.changes[0][1] == 4


def test_nothing_is_tried_before_learning_and_with_one_core():
    waiting = Machine(2, QUICKER_WITH_TWO)
    waiting.iterate(20, trained=0)
    assert waiting.threads == 1
    assert waiting.choice.changes == []
    alone = Machine(1, {1: 0.02})
    alone.iterate(20)
    assert alone.choice.changes == []


def test_a_neighbour_brings_it_down_within_seconds_and_up_again_when_it_is_gone():
    machine = Machine(2, QUICKER_WITH_TWO)
    machine.iterate(20)
    machine.neighbours = 1
    machine.iterate(8)
    assert machine.threads == 1
    machine.iterate(60)
    assert machine.threads == 1
    machine.neighbours = 0
    machine.iterate(3 * PAUSE)
    assert machine.threads == 2
    assert [threads for _, threads in machine.choice.changes] == [2, 1, 2]


def test_a_run_that_begins_on_a_busy_machine_uses_it_once_it_is_free():
    machine = Machine(2, QUICKER_WITH_TWO, neighbours=1)
    machine.iterate(60)
    assert machine.threads == 1
    machine.neighbours = 0
    machine.iterate(60)
    assert machine.threads == 2


def test_a_calm_run_tries_once():
    machine = Machine(2, QUICKER_WITH_TWO)
    machine.iterate(5)
    set_before = machine.threads
    calls = []
    machine.choice._set = calls.append
    machine.iterate(1000)
    assert machine.threads == set_before
    assert calls == []


def test_a_number_that_somebody_gave_is_kept(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(device, "_fixed_threads", None)  # Another test may have fixed it.
    assert threads_given("auto") is None
    assert threads_given(3) == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert threads_given("auto") == 2
    assert threads_given(1) == 1
    monkeypatch.setattr(device, "_fixed_threads", 4)
    assert threads_given("auto") == 4
