"""Every mutated world is named by `check_env`: what, where, and what to do about it, in one line."""

import pytest

from rein.envs.checking import check_env
from tests.faults.mutations import mutant


def check_named(seed: int) -> None:
    one = mutant(seed)
    faults = check_env(one.make, 40).faults
    assert faults, f"{one.what}: nothing was found"
    told = [fault for fault in faults if one.path in fault]
    assert told, f"{one.what}: {faults} do not name {one.path!r}"
    assert all("\n" not in fault and ": " in fault for fault in told), told


@pytest.mark.parametrize("seed", range(60))
def test_mutated_worlds_are_named(seed):
    check_named(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(60, 500))
def test_five_hundred_mutated_worlds_are_named(seed):
    check_named(seed)
