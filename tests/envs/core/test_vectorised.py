"""Compiled batches are Gymnasium's worlds, bit for bit."""

import numpy as np
import pytest
import torch

from rein.envs import BatchEnvironment
from rein.envs.single import EnvFactory
from rein.envs.vectorised import (
    ClassicControlEnvironment,
    LocomotionEnvironment,
    classic,
    exact_batch,
    has_exact_kernel,
    has_exact_locomotion,
)
from rein.envs.vectorised.classic import known_worlds
from rein.envs.vectorised.locomotion import known_locomotion

NAMES = [name for name in known_worlds() if name != "CartPole-v0"]


def ends_of_equal_trajectories(compiled, single, num_steps, extreme=False):
    """Compares two batches step by step; gives the number of episodes that ended."""
    generator = torch.Generator().manual_seed(0)
    steps = compiled.reset(), single.reset()
    ends = 0
    for number in range(num_steps):
        for field in ("step_type", "reward", "discount", "observation", "prev_action", "env_id"):
            assert torch.equal(getattr(steps[0], field), getattr(steps[1], field)), f"{field} at step {number}"
        ends += int(steps[0].is_last().sum())
        action = compiled.action_spec.sample((4,), generator)
        if extreme:
            # Always the same push, and torques beyond the limit: other parts of the state space.
            action = torch.full_like(action, 1) if action.dtype == torch.int64 else action * 3
        steps = compiled.step(action), single.step(action)
    return ends


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("extreme", [False, True])
def test_trajectories_are_equal_to_the_last_bit(name, extreme):
    compiled = ClassicControlEnvironment(name, 4, seed=11)
    single = BatchEnvironment(EnvFactory(name), 4, seed=11)
    assert ends_of_equal_trajectories(compiled, single, 600, extreme) > 0


@pytest.mark.parametrize("name", known_locomotion())
def test_walkers_are_equal_to_the_last_bit(name):
    pytest.importorskip("mujoco")
    with LocomotionEnvironment(name, 4, seed=11, num_threads=2) as compiled:
        single = BatchEnvironment(EnvFactory(name), 4, seed=11)
        assert len(compiled._helpers) == 1
        ends = ends_of_equal_trajectories(compiled, single, 200)
        if name in ("Hopper-v5", "Walker2d-v5"):
            assert ends > 0


def test_the_time_limit_of_walkers_truncates():
    pytest.importorskip("mujoco")
    with LocomotionEnvironment("HalfCheetah-v5", 2, seed=0) as environment:
        environment.reset()
        environment._steps[0] = 998
        action = environment.action_spec.zeros((2,))
        seen = []
        for _ in range(3):
            step = environment.step(action)
            seen.append((step.step_type.tolist(), step.discount.tolist()))
    assert seen == [([1, 1], [1.0, 1.0]), ([2, 1], [1.0, 1.0]), ([0, 1], [1.0, 1.0])]


def test_a_walker_that_gives_nan_is_cut_and_made_anew():
    pytest.importorskip("mujoco")
    with LocomotionEnvironment("Hopper-v5", 3, seed=0) as environment:
        environment.reset()
        action = environment.action_spec.zeros((3,))
        before = environment.step(action).observation.clone()
        broken = action.clone()
        broken[1] = float("nan")
        step = environment.step(broken)
        assert step.step_type.tolist() == [1, 2, 1]
        assert step.discount.tolist() == [1.0, 1.0, 1.0]
        assert torch.equal(step.observation[1], before[1])
        assert environment.fault_counts.tolist() == [0, 1, 0]
        assert environment.step(action).step_type.tolist() == [1, 0, 1]
        assert torch.isfinite(environment.step(action).observation).all()


def test_walkers_resume_exactly():
    pytest.importorskip("mujoco")
    generator = torch.Generator().manual_seed(0)
    with LocomotionEnvironment("Hopper-v5", 2, seed=0) as environment:
        environment.reset()
        actions = [environment.action_spec.sample((2,), generator) for _ in range(120)]
        for action in actions[:60]:
            environment.step(action)
        state = environment.get_state()
        wanted = [environment.step(action).observation.clone() for action in actions[60:]]
    with LocomotionEnvironment("Hopper-v5", 2, seed=9) as later:
        later.set_state(state)
        found = [later.step(action).observation.clone() for action in actions[60:]]
    assert all(torch.equal(a, b) for a, b in zip(wanted, found, strict=True))


def test_the_exact_batch_of_a_world_is_found():
    assert exact_batch("FrozenLake-v1") is None
    assert exact_batch("CartPole-v1").func is ClassicControlEnvironment
    pytest.importorskip("mujoco")
    assert has_exact_locomotion("Hopper-v5")
    assert exact_batch("Hopper-v5").func is LocomotionEnvironment


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
    assert "differs from Gymnasium's at step 0" in caplog.text


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
    with pytest.raises(ValueError, match="no batch"):
        LocomotionEnvironment("Ant-v5", 1)
