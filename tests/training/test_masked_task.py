"""Masks of valid actions: none is ever broken, and what they say is learnt from."""

import pytest

from tests.training.masked_task import BEST, illegal_and_curve

pytestmark = pytest.mark.learning


@pytest.mark.parametrize(("algorithm", "steps"), [("ppo", 20_000), ("dqn", 20_000), ("sac", 6_000)])
def test_a_task_with_masks_is_learnt_sooner_than_without(algorithm, steps):
    illegal, learnt = illegal_and_curve(algorithm, steps, True, seed=0, num_evaluations=10)
    assert illegal == 0
    assert max(value for _, value in learnt) == BEST
    illegal, without = illegal_and_curve(algorithm, steps, False, seed=0, num_evaluations=10)
    assert illegal > 0
    assert max(value for _, value in without) < BEST
