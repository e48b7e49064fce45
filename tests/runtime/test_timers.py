"""Timers with a clock that the test moves."""

import pickle
import threading

import pytest

from rein import runtime
from rein.runtime import timers


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 0.0

    monkeypatch.setattr(timers.time, "perf_counter", lambda: Clock.now)
    return Clock


def test_sections_nest_and_add_up(clock):
    watch = timers.Timers()
    for _ in range(2):
        with watch.timer("train"):
            clock.now += 1
            with watch.timer("learn"):
                clock.now += 3
    assert watch.stats() == {
        "train/learn": timers.TimerStats(6, 6, 2),
        "train": timers.TimerStats(8, 2, 2),
    }
    lines = watch.report().splitlines()
    assert lines[1].split() == ["train", "8.000", "2.000", "2", "4000.000"]
    assert lines[2].startswith("  learn")
    watch.reset()
    assert watch.stats() == {}


def test_a_section_counts_also_when_it_raises(clock):
    watch = timers.Timers()
    with pytest.raises(KeyError), watch.timer("a"):
        raise KeyError
    with watch.timer("b"):
        clock.now += 1
    assert set(watch.stats()) == {"a", "b"}


def test_report_with_an_enclosing_section_still_open(clock):
    watch = timers.Timers()
    with watch.timer("outer"):
        with watch.timer("inner"):
            clock.now += 1
        assert "inner" in watch.report()


def test_threads_nest_apart(clock):
    watch = timers.Timers()

    def work():
        with watch.timer("worker"):
            pass

    with watch.timer("main"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert set(watch.stats()) == {"main", "worker"}


def test_module_function_finds_the_current_run():
    assert runtime.report() == ""
    with runtime.timer("nothing"):
        pass
    with runtime.Run(enable_timers=True) as run, runtime.timer("x"):
        pass
    assert run.timers.stats()["x"].calls == 1
    with runtime.Run() as run:
        with runtime.timer("x"):
            pass
        assert run.timers.stats() == {}
        assert runtime.timer("x") is runtime.timer("y")
        assert "section" in runtime.report()


def test_timers_pickle_without_their_totals():
    watch = pickle.loads(pickle.dumps(timers.Timers(enabled=False)))
    assert not watch.enabled
