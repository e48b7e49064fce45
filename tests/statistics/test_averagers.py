"""Averagers against naive weighted means."""

import copy
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rein import statistics
from rein.runtime import LinearScheduler, Run
from rein.specs import TensorSpec

NUMBERS = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=40)


def _naive_decaying(values, rates):
    """The mean with the weights that rates imply, by definition."""
    weights = np.zeros(len(values))
    for i, rate in enumerate(rates):
        weights *= 1 - rate
        weights[i] = rate
    return float(np.dot(weights, values) / weights.sum())


@settings(max_examples=60, deadline=None)
@given(NUMBERS, st.integers(1, 12))
def test_window_average_is_the_mean_of_the_last_updates(values, window):
    averager = statistics.ScalarWindowAverager(window, dtype=torch.float64)
    for i, value in enumerate(values):
        average = averager.average(torch.tensor(value, dtype=torch.float64)).item()
        assert average == pytest.approx(np.mean(values[max(0, i + 1 - window) : i + 1]), rel=1e-9, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(NUMBERS, st.sampled_from([1e-4, 0.1, 0.9, 1.0]))
def test_em_average_is_the_normalized_exponential_mean(values, rate):
    averager = statistics.ScalarEMAverager(rate, dtype=torch.float64)
    for value in values:
        averager.update(torch.tensor(value, dtype=torch.float64))
    expected = _naive_decaying(values, [rate] * len(values))
    assert averager.get().item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(NUMBERS, st.sampled_from([1.0, 3.5, 10.0]))
def test_adaptive_average_uses_the_rate_speed_over_t_plus_speed(values, speed):
    averager = statistics.ScalarAdaptiveAverager(speed, dtype=torch.float64)
    for value in values:
        averager.update(torch.tensor(value, dtype=torch.float64))
    expected = _naive_decaying(values, [speed / (t + speed) for t in range(len(values))])
    assert averager.get().item() == pytest.approx(expected, rel=1e-9, abs=1e-9)
    if speed == 1.0:
        assert averager.get().item() == pytest.approx(np.mean(values), rel=1e-9, abs=1e-9)


def _averagers(spec):
    return [
        statistics.WindowAverager(spec, window_size=5),
        statistics.EMAverager(spec, update_rate=0.2),
        statistics.AdaptiveAverager(spec),
    ]


@pytest.mark.parametrize("kind", range(3))
def test_nests_are_averaged_over_batch_dimensions(kind):
    spec = {"a": TensorSpec((2,)), "b": (TensorSpec(()), TensorSpec((), torch.int64))}
    averager = _averagers(spec)[kind]
    batch = {"a": torch.arange(12.0).reshape(3, 2, 2), "b": (torch.tensor(4.0), torch.tensor([1, 2]))}
    average = averager.average(batch)
    assert average["a"].tolist() == [5.0, 6.0]
    assert average["b"][0].item() == 4.0
    assert average["b"][1].item() == 1.5
    assert average["b"][1].dtype == torch.float32


@pytest.mark.parametrize("kind", range(3))
def test_empty_average_is_zero_and_reset_returns_there(kind):
    averager = _averagers(TensorSpec((2,)))[kind]
    assert averager.get().tolist() == [0.0, 0.0]
    averager.update(torch.ones(4, 2))
    averager.update(torch.zeros(0, 2))
    assert averager.get().tolist() == [1.0, 1.0]
    averager.reset()
    assert averager.get().tolist() == [0.0, 0.0]
    assert averager(torch.full((1, 2), 3.0)).tolist() == [3.0, 3.0]


@pytest.mark.parametrize("kind", range(3))
def test_state_dict_resumes_exactly(kind):
    torch.manual_seed(0)
    original, restored = (_averagers(TensorSpec((3,)))[kind] for _ in range(2))
    for _ in range(7):
        original.update(torch.randn(4, 3))
    restored.load_state_dict(original.state_dict())
    for _ in range(7):
        batch = torch.randn(4, 3)
        assert torch.equal(original.average(batch), restored.average(batch))
    assert torch.equal(copy.deepcopy(original).get(), original.get())


def test_averages_carry_no_gradient_and_do_not_alias_state():
    averager = statistics.EMAverager(TensorSpec((2,), torch.float64), 0.5)
    average = averager.average(torch.ones(2, dtype=torch.float64, requires_grad=True))
    assert not average.requires_grad
    average.zero_()
    assert averager.get().tolist() == [1.0, 1.0]


def test_slow_average_moves_even_by_less_than_single_precision():
    averager = statistics.ScalarEMAverager(LinearScheduler("env_steps", [(0, 1.0), (1, 1e-4)]))
    goal = torch.tensor(1.0 + 1e-4)
    with Run() as run:
        averager.update(torch.tensor(1.0))
        run.env_steps = 1
        for _ in range(20_000):
            averager.update(goal)
    # In single precision every step of 1e-8 would round away.
    assert averager.get().item() == pytest.approx(1.0 + (goal.item() - 1.0) * (1 - (1 - 1e-4) ** 20_000), abs=4e-7)


def test_window_of_outliers_leaves_no_residue():
    averager = statistics.ScalarWindowAverager(10)
    averager.update(torch.tensor(1e30))
    for _ in range(10):
        averager.update(torch.tensor(0.5))
    assert averager.get().item() == 0.5
    averager.update(torch.tensor(math.inf))
    for _ in range(10):
        averager.update(torch.tensor(0.25))
    assert averager.get().item() == 0.25


def test_update_rate_may_be_scheduled():
    averager = statistics.ScalarEMAverager(LinearScheduler("env_steps", [(0, 1.0), (10, 0.5)]))
    with Run() as run:
        averager.update(torch.tensor(4.0))
        run.env_steps = 10
        assert averager.average(torch.tensor(0.0)).item() == 2.0


def test_moving_a_module_keeps_counters_on_the_host():
    averager = statistics.AdaptiveAverager(TensorSpec((2,)))
    averager.update(torch.ones(2))
    averager.to("meta")
    assert averager._moments.updates.get() == 1
    assert averager._moments.mean(0).device.type == "meta"


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"update_rate.*0"):
        statistics.ScalarEMAverager(0.0)
    with pytest.raises(ValueError, match=r"window_size.*0"):
        statistics.ScalarWindowAverager(0)
    with pytest.raises(ValueError, match=r"speed.*-1"):
        statistics.ScalarAdaptiveAverager(-1.0)
    with pytest.raises(TypeError, match=r"TensorSpec.*'a'"):
        statistics.EMAverager({"a": 3}, 0.5)
    averager = statistics.EMAverager({"a": TensorSpec((2,))}, 0.5)
    with pytest.raises(ValueError, match=r"\(2,\) at 'a', got shape \(4, 3\)"):
        averager.update({"a": torch.zeros(4, 3)})
    with pytest.raises(ValueError, match="b"):
        averager.update({"b": torch.zeros(4, 2)})
