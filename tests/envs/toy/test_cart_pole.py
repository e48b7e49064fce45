"""CartPole with a continuous force: as Gymnasium's under full force, and how much can be earned."""

from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from rein.envs.toy.cart_pole import CartPoleContinuousEnv


@pytest.mark.parametrize("seed", [0, 1])
def test_it_moves_as_gymnasiums_under_full_force(seed: int) -> None:
    ours, theirs = CartPoleContinuousEnv(), gym.make("CartPole-v1").unwrapped
    start, _ = ours.reset(seed=seed)
    theirs.reset(seed=seed)
    reference: Any = theirs
    reference.state = tuple(start.astype(np.float64))
    ours._state = start.astype(np.float64)
    for step in range(200):
        right = (step // 3 + seed) % 2
        observation, _, fell, _, _ = ours.step(np.array([2.0 * right - 1.0], np.float32))
        expected, _, theirs_fell, *_ = reference.step(right)
        np.testing.assert_allclose(observation, expected, rtol=1e-5, atol=1e-6)
        assert fell == theirs_fell
        if fell:
            break
    assert step > 8


def test_a_force_in_between_pushes_less() -> None:
    speeds = []
    for force in (0.25, 0.5, 1.0):
        env = CartPoleContinuousEnv()
        env.reset(seed=0)
        env._state = np.zeros(4)
        env.step(np.array([force], np.float32))
        speeds.append(env._state[1])
    assert speeds[1] / speeds[0] == pytest.approx(2.0)
    assert speeds[2] / speeds[0] == pytest.approx(4.0)


def balanced(gain: float) -> tuple[float, int]:
    env = CartPoleContinuousEnv()
    state, _ = env.reset(seed=0)
    total, steps, ended = 0.0, 0, False
    while not ended:
        push = gain * float(np.dot(state, [0.5, 0.8, 8.0, 1.5]))
        state, reward, fell, cut, _ = env.step(np.array([np.clip(push, -1, 1)], np.float32))
        total, steps, ended = total + reward, steps + 1, fell or cut
    return total, steps


def test_returns_of_a_linear_controller_and_of_none() -> None:
    total, steps = balanced(1.0)
    assert steps == 200
    assert 195 < total < 200
    total, steps = balanced(0.0)
    assert total < steps < 200
