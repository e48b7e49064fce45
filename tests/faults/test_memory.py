"""How the campaign counts memory."""

import pytest
import torch

from tests.faults.campaign.memory import WARM, Reading, growth, read


def test_growth_is_from_the_least_of_the_first_quarter_to_that_of_the_last_in_ten_minutes_of_processor_time():
    before = [Reading(seconds, 1.0, 1.0) for seconds in (0.0, WARM - 1)]
    first = [Reading(WARM, 300.0, 400.0), Reading(WARM + 20, 305.0, 390.0)]
    between = [Reading(WARM + 30 + i, 900.0, 900.0) for i in range(4)]
    last = [Reading(WARM + 60, 308.0, 397.0), Reading(WARM + 80, 302.0, 420.0)]

    # A minute from the middle of the first two to that of the last two: 2 MB more are held, and 7 resident.
    assert growth([*before, *first, *between, *last]) == pytest.approx((20.0, 70.0))


def test_what_is_allocated_is_held_until_it_is_freed():
    least = read().held
    tensor = torch.ones(10_000_000)
    most = read().held
    del tensor

    assert most - least == pytest.approx(40.0, abs=1.0)
    assert read().held - least == pytest.approx(0.0, abs=1.0)
