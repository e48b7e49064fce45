"""CartPole with a continuous force and a reward that says how well the pole stands."""

import math
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rein.config import configurable
from rein.envs.drawing import BLACK, BLUE, RED, Frame, canvas, draw_line, fill_box
from rein.envs.toy.world import ToyWorld

FloatArray = NDArray[np.float32]

CART_LIMIT = 2.4
"""Distance of the cart from the middle at which an episode ends."""
POLE_LIMIT = 12 * 2 * math.pi / 360
"""Angle of the pole from the vertical at which an episode ends, in radians."""

_GRAVITY, _CART_MASS, _POLE_MASS, _HALF_LENGTH, _SECONDS = 9.8, 1.0, 0.1, 0.5, 0.02


@configurable
class CartPoleContinuousEnv(ToyWorld[FloatArray, FloatArray]):
    """Balances a pole on a cart by a force in [-1, 1] times `force` (Barto et al. 1983, as Gymnasium's CartPole-v1).

    The reward of a step is `1 - (position^2 / 2.4^2 + angle^2 / limit^2) / 2` of where it led, 0 beyond the limits of 2.4
    and 12 degrees, where the episode terminates. It is cut after `max_steps`; the best return is just below `max_steps`.

    The observation is position, speed, angle and angular speed, all near 0 at the start.

    Args:
        max_steps: time limit in steps.
        force: of a full action, in newtons.
        render_mode: see `ToyWorld`.
    """

    def __init__(self, max_steps: int = 200, force: float = 10.0, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.max_steps = max_steps
        self.force = force
        self.observation_space = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self._state = np.zeros(4)
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[FloatArray, dict[str, Any]]:
        """Starts an episode near the middle, nearly upright."""
        super().reset(seed=seed)
        self._state = self.np_random.uniform(-0.05, 0.05, 4)
        self._steps = 0
        return self._state.astype(np.float32), {}

    def step(self, action: FloatArray) -> tuple[FloatArray, float, bool, bool, dict[str, Any]]:
        """Applies the force for 20 milliseconds."""
        self._check_action(action)
        self._move(self.force * float(action[0]))
        self._steps += 1
        position, angle = self._state[0] / CART_LIMIT, self._state[2] / POLE_LIMIT
        fell = abs(position) > 1.0 or abs(angle) > 1.0
        reward = 0.0 if fell else 1.0 - 0.5 * (position**2 + angle**2)
        truncated = not fell and self._steps >= self.max_steps
        return self._state.astype(np.float32), float(reward), bool(fell), truncated, {}

    def _move(self, force: float) -> None:
        _, speed, angle, spin = self._state
        total, moment = _CART_MASS + _POLE_MASS, _POLE_MASS * _HALF_LENGTH
        cosine, sine = math.cos(angle), math.sin(angle)
        push = (force + moment * spin**2 * sine) / total
        turn = (_GRAVITY * sine - cosine * push) / (_HALF_LENGTH * (4.0 / 3.0 - _POLE_MASS * cosine**2 / total))
        acceleration = push - moment * turn * cosine / total
        change = np.array([speed, acceleration, spin, turn])
        self._state = self._state + _SECONDS * change

    def _draw(self) -> Frame:
        frame = canvas(96, 160)
        column = 0.5 + 0.5 * self._state[0] / (CART_LIMIT + 0.3)
        draw_line(frame, (0.8, 0.0), (0.8, 1.0), BLACK, 1)
        fill_box(frame, 0.72, column - 0.06, 0.08, 0.12, BLUE)
        tip = (0.72 - 0.5 * math.cos(self._state[2]), column + 0.3 * math.sin(self._state[2]))
        draw_line(frame, (0.72, column), tip, RED)
        return frame
