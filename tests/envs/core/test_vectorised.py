"""Compiled batches are Gymnasium's worlds, bit for bit."""

import numpy as np
import pytest
import torch

from rein.envs import BatchEnvironment
from rein.envs.single import EnvFactory
from rein.envs.vectorised import ClassicControlEnvironment, classic, has_exact_kernel
from rein.envs.vectorised.classic import known_worlds

NAMES = [name for name in known_worlds() if name != "CartPole-v0"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("extreme", [False, True])
def test_trajectories_are_equal_to_the_last_bit(name, extreme):
    compiled = ClassicControlEnvironment(name, 4, seed=11)
    single = BatchEnvironment(EnvFactory(name), 4, seed=11)
    generator = torch.Generator().manual_seed(0)
    steps = compiled.reset(), single.reset()
    ends = 0
    for number in range(1200):
        for field in ("step_type", "reward", "discount", "observation", "prev_action", "env_id"):
            assert torch.equal(getattr(steps[0], field), getattr(steps[1], field)), f"{field} at step {number}"
        ends += int(steps[0].is_last().sum())
        action = compiled.action_spec.sample((4,), generator)
        if extreme:
            # Always the same push, and torques beyond the limit: other parts of the state space.
            action = torch.full_like(action, 1) if action.dtype == torch.int64 else action * 3
        steps = compiled.step(action), single.step(action)
    assert ends > 0


@pytest.mark.parametrize("name", NAMES)
def test_kernels_are_found_exact(name):
    assert has_exact_kernel(name)


def test_a_kernel_that_differs_is_noticed_and_not_used(monkeypatch, caplog):
    wrong = classic.ClassicWorld("step_mountain_car", 2, lambda g: np.array([g.uniform(-0.6, -0.39), 0]), lambda s: s)
    monkeypatch.setitem(classic._WORLDS, "MountainCar-v0", wrong)
    has_exact_kernel.cache_clear()
    try:
        assert not has_exact_kernel("MountainCar-v0")
    finally:
        has_exact_kernel.cache_clear()
    assert "differs from Gymnasium at step 0" in caplog.text


@pytest.mark.parametrize(
    ("name", "action"), [("CartPole-v1", 2), ("MountainCar-v0", -1), ("Pendulum-v1", float("nan"))]
)
def test_invalid_actions_are_refused(name, action):
    with ClassicControlEnvironment(name, 2, seed=0) as environment:
        environment.reset()
        actions = environment.action_spec.zeros((2,))
        actions[1] = action
        with pytest.raises(ValueError, match="environment 1"):
            environment.step(actions)


def test_worlds_without_a_kernel_are_refused():
    assert not has_exact_kernel("FrozenLake-v1")
    with pytest.raises(ValueError, match="no kernel"):
        ClassicControlEnvironment("FrozenLake-v1", 1)
