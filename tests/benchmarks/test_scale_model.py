"""The discrete-event model where its answer is known; nothing is timed."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def model() -> Iterator[Any]:
    sys.path.insert(0, str(FOLDER))
    import scale_model

    yield scale_model
    sys.path.remove(str(FOLDER))
    del sys.modules["scale_model"]


def cost(model: Any, **changes: Any) -> Any:
    return model.Calibration(100, 1.0, 0.0, 0.001, 0, 0)._replace(**changes)


def test_collectors_that_are_slow_add_up(model: Any) -> None:
    quiet = model.Cluster(latency=0.0, spread=0.0)
    for count in (1, 4, 16):
        one = model.simulate(count, cost(model), quiet)
        assert one.steps_per_second == pytest.approx(100 * count, rel=0.02)
        assert one.dropped == 0


def test_a_learner_that_is_slow_is_the_limit_and_lag_stays_below_its_own(model: Any) -> None:
    for count in (1, 10, 25, 200):
        one = model.simulate(count, cost(model, collect=0.001, learn=0.5), model.Cluster(spread=0.0))
        assert one.steps_per_second == pytest.approx(200, rel=0.02)
        assert one.learner_busy == pytest.approx(1.0, rel=0.02)
        assert one.largest_lag <= 10
    # A version for each fragment makes the lag the number of collectors.
    alone = model.simulate(25, cost(model, collect=0.001, learn=0.5), model.Cluster(fragments_per_update=1, spread=0.0))
    assert alone.dropped > 0.3


def test_a_link_that_is_full_is_the_limit(model: Any) -> None:
    slow = model.Cluster(bandwidth=1000.0, latency=0.0, spread=0.0)
    one = model.simulate(50, cost(model, fragment_bytes=100), slow, fragments=500)
    assert one.steps_per_second == pytest.approx(1000, rel=0.05)


def test_one_core_for_all_gives_the_sum_of_their_times(model: Any) -> None:
    alone = model.Cluster(cores=1, bandwidth=1e12, latency=0.0, spread=0.0)
    one = model.simulate(4, cost(model, collect=0.3, learn=0.5, hand_over=0.2), alone)
    assert one.steps_per_second == pytest.approx(100, rel=0.02)
