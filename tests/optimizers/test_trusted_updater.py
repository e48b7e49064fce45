"""TrustedUpdater on quadratics, where every number is known."""

import math

import pytest
import torch

from rein.optimizers import SGD, TrustedUpdater


def _parameter(*values):
    return torch.nn.Parameter(torch.tensor(values, dtype=torch.float64))


def _move(parameter, *values):
    parameter.data.copy_(torch.tensor(values, dtype=torch.float64))


def test_a_step_within_the_limit_is_kept():
    parameter = _parameter(0.0, 0.0)
    updater = TrustedUpdater([parameter])
    _move(parameter, 3.0, 4.0)
    result = updater.adjust_step(lambda: parameter.square().sum(), 25.0)
    assert parameter.tolist() == [3.0, 4.0]
    assert (float(result.change), result.num_shrinks, result.fraction) == (25.0, 0, 1.0)


def test_a_linear_change_is_shrunk_once_to_nine_tenths_of_the_limit():
    parameter = _parameter(1.0)
    updater = TrustedUpdater([parameter])
    _move(parameter, 11.0)
    result = updater.adjust_step(lambda: (parameter - 1.0).abs().sum(), 2.0)
    # 1 + 0.9 * 2 / 10 * 10
    assert parameter.item() == pytest.approx(2.8)
    assert float(result.change) == 10.0
    assert result.num_shrinks == 1
    assert result.fraction == pytest.approx(0.18)


def test_a_quadratic_change_ends_within_the_limit_along_the_same_direction():
    a, b = _parameter(0.0), _parameter(0.0, 0.0)
    updater = TrustedUpdater([a, b])
    _move(a, 6.0)
    _move(b, 8.0, 0.0)
    result = updater.adjust_step(lambda: a.square().sum() + b.square().sum(), 1.0)
    # 100 > 1: one factor 0.009 makes it 0.0081.
    assert result.num_shrinks == 1
    assert a.item() == pytest.approx(6.0 * 0.009)
    assert b.tolist() == pytest.approx([8.0 * 0.009, 0.0])


def test_a_change_that_grows_slower_than_the_step_takes_several_shrinks():
    parameter = _parameter(0.0)
    updater = TrustedUpdater([parameter])
    _move(parameter, 1.0)
    result = updater.adjust_step(lambda: parameter.abs().sqrt().sum(), 0.1)
    assert result.num_shrinks > 1
    assert math.sqrt(abs(parameter.item())) <= 0.1


def test_the_accepted_parameters_are_the_next_base():
    parameter = _parameter(0.0)
    updater = TrustedUpdater([parameter])
    base = [0.0]
    for expected in (0.9, 1.8, 2.7):
        _move(parameter, parameter.item() + 100.0)
        updater.adjust_step(lambda: (parameter - base[0]).abs().sum(), 1.0)
        base[0] = parameter.item()
        assert parameter.item() == pytest.approx(expected)


def test_nests_of_changes_use_the_tightest_limit():
    parameter = _parameter(0.0, 0.0)
    updater = TrustedUpdater([parameter])
    _move(parameter, 2.0, 10.0)
    updater.adjust_step(lambda: {"x": parameter[0].abs(), "y": parameter[1].abs()}, {"x": 1.0, "y": 2.0})
    torch.testing.assert_close(parameter.detach(), torch.tensor([0.36, 1.8], dtype=torch.float64))


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_an_update_with_a_change_that_is_not_finite_is_taken_back(bad):
    parameter = _parameter(5.0)
    updater = TrustedUpdater([parameter])
    _move(parameter, bad)
    result = updater.adjust_step(lambda: parameter.abs().sum(), 1.0)
    assert parameter.item() == 5.0
    assert result.fraction == 0.0


def test_an_update_that_cannot_be_shrunk_enough_is_taken_back():
    parameter = _parameter(5.0)
    updater = TrustedUpdater([parameter])
    _move(parameter, 6.0)
    result = updater.adjust_step(lambda: torch.tensor(2.0), 1.0, max_shrinks=4)
    assert parameter.item() == 5.0
    assert result.num_shrinks == 4
    assert result.fraction == 0.0


def test_loaded_parameters_can_be_trusted():
    parameter = _parameter(0.0)
    updater = TrustedUpdater([parameter])
    _move(parameter, 50.0)
    updater.trust_present_parameters()
    _move(parameter, 60.0)
    updater.adjust_step(lambda: (parameter - 50.0).abs().sum(), 1.0)
    assert parameter.item() == pytest.approx(50.9)


def test_bad_limits_and_no_parameters_are_refused():
    with pytest.raises(ValueError, match="at least one"):
        TrustedUpdater([])
    with pytest.raises(ValueError, match="positive"):
        TrustedUpdater([_parameter(0.0)]).adjust_step(lambda: torch.tensor(1.0), 0.0)


def test_minimising_a_quadratic_with_limited_steps():
    parameter = _parameter(10.0)
    optimizer = SGD(lr=1.0)
    optimizer.add_param_group({"params": [parameter]})
    updater = TrustedUpdater([parameter])
    for _ in range(40):
        before = parameter.item()
        optimizer.zero_grad()
        (0.5 * parameter.square()).sum().backward()
        optimizer.step()
        updater.adjust_step(lambda before=before: (parameter - before).abs().sum(), 0.5)
        assert abs(parameter.item() - before) <= 0.5
    assert parameter.item() == pytest.approx(0.0, abs=1e-9)
