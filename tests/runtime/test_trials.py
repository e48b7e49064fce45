"""Trials: made once for a run, kept in its state, and decided by the environment if that has a wish."""

import time

import pytest

from rein.runtime import Run
from rein.runtime.trials import kept, processor_time_ratio

VARIABLE = "REIN_TEST_TRIAL"


class Trial:
    """Finds what it is told to, and counts how often it is asked to find it."""

    def __init__(self, outcome: bool, is_possible: bool = True) -> None:
        self.outcome, self.is_possible, self.made = outcome, is_possible, 0

    def __call__(self, wish: str) -> bool:
        if wish:
            return wish == "1" and self.is_possible
        self.made += 1
        return self.outcome and self.is_possible


@pytest.mark.parametrize("outcome", [True, False])
def test_a_run_tries_once_and_keeps_it_in_its_state(outcome: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    first = Trial(outcome)
    with Run(seed=0) as run:
        assert [kept("a", VARIABLE, first) for _ in range(3)] == [outcome] * 3
        state = run.state_dict()
    assert first.made == 1
    with Run(seed=0) as resumed:
        resumed.load_state_dict(state)
        assert kept("a", VARIABLE, Trial(not outcome)) is outcome
        assert kept("b", VARIABLE, Trial(not outcome)) is not outcome


def test_what_was_found_elsewhere_does_not_count_where_it_is_not_possible(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with Run(seed=0) as run:
        run.trials["a"] = True
        assert not kept("a", VARIABLE, Trial(True, is_possible=False))


@pytest.mark.parametrize("wish", ["0", "1"])
def test_the_environment_decides_without_a_trial(wish: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, wish)
    trial = Trial(wish == "0")
    with Run(seed=0) as run:
        assert kept("a", VARIABLE, trial) is (wish == "1")
        assert trial.made == 0
        assert run.trials == {}


def test_without_a_run_each_question_is_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    trial = Trial(True)
    assert kept("a", VARIABLE, trial)
    assert kept("a", VARIABLE, trial)
    assert trial.made == 2


def test_the_least_time_of_each_way_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    costs = {"slow": iter([9.0, 6.0, 8.0]), "quick": iter([2.0, 5.0, 3.0])}

    def take(name: str) -> None:
        nonlocal now
        now += next(costs[name])

    monkeypatch.setattr(time, "thread_time", lambda: now)
    assert processor_time_ratio([lambda: take("slow"), lambda: take("quick")], tries=3) == 3.0
