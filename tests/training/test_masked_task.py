"""Masks of valid actions: none is ever broken, and what they say is learnt from."""

import pytest

from tests.training.masked_task import BEST, illegal_and_return

pytestmark = pytest.mark.learning


@pytest.mark.parametrize(("algorithm", "steps"), [("ppo", 20_000), ("dqn", 10_000), ("sac", 5_000)])
def test_a_task_with_masks_is_learnt_sooner_than_without(algorithm, steps):
    illegal, learnt = illegal_and_return(algorithm, steps, True, seed=0)
    assert illegal == 0
    assert learnt == BEST
    assert illegal_and_return(algorithm, steps, False, seed=0)[1] < BEST
