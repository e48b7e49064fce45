"""A pendulum to be held upright against pushes that last."""

import math
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rein.config import configurable
from rein.envs.drawing import BLACK, RED, Frame, canvas, draw_line
from rein.envs.toy.world import ToyWorld, scalar_info_space

FloatArray = NDArray[np.float32]

_GRAVITY, _SECONDS, _TOP_SPEED, _TORQUE = 10.0, 0.05, 8.0, 2.0


@configurable
class BalanceEnv(ToyWorld[FloatArray, FloatArray]):
    """Holds up the pendulum of Gymnasium's Pendulum-v1 from within 0.3 radians of the top, by a torque in [-2, 2].

    The reward of a step is `-(angle^2 + 0.1 speed^2 + 0.001 torque^2)` of before it, as in Pendulum-v1; without pushes the
    best return is just below 0. An episode is cut after `max_steps`; `info["is_success"]` is 1.0 as long as the pendulum has
    not fallen below the horizontal. Where the angle is more than about 0.4, no torque brings it back without a swing.

    A push is added to each torque: the sum of two normal draws, this step's and the last one's, so that it lasts for two
    steps and what the pendulum does shows a part of the next push. `rein record --policy lasting_noise=...` disturbs the
    actions of a policy in the same way, and writes down the disturbed ones.

    The observation is cosine and sine of the angle and the speed.

    Args:
        push: deviation of each draw, as a share of the largest torque; 0 pushes nothing.
        max_steps: time limit in steps.
        render_mode: see `ToyWorld`.
    """

    def __init__(self, push: float = 0.0, max_steps: int = 200, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.push = push
        self.max_steps = max_steps
        high = np.array([1.0, 1.0, _TOP_SPEED], np.float32)
        self.observation_space = gym.spaces.Box(-high, high, dtype=np.float32)
        self.action_space = gym.spaces.Box(-_TORQUE, _TORQUE, (1,), np.float32)
        self.env_info_space = scalar_info_space("is_success")
        self._angle = self._speed = self._last_draw = 0.0
        self._has_fallen = False
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[FloatArray, dict[str, Any]]:
        """Starts an episode near the top, with a speed of at most 0.3 radians per second."""
        super().reset(seed=seed)
        self._angle, self._speed = (float(x) for x in self.np_random.uniform(-0.3, 0.3, 2))
        self._last_draw, self._has_fallen, self._steps = 0.0, False, 0
        return self._observation(), self._info()

    def step(self, action: FloatArray) -> tuple[FloatArray, float, bool, bool, dict[str, Any]]:
        """Turns for 50 milliseconds."""
        self._check_action(action)
        draw = self.push * _TORQUE * float(self.np_random.standard_normal())
        torque = float(np.clip(float(action[0]) + draw + self._last_draw, -_TORQUE, _TORQUE))
        angle = (self._angle + math.pi) % (2.0 * math.pi) - math.pi
        reward = -(angle**2 + 0.1 * self._speed**2 + 0.001 * torque**2)
        speed = self._speed + (1.5 * _GRAVITY * math.sin(self._angle) + 3.0 * torque) * _SECONDS
        self._speed = float(np.clip(speed, -_TOP_SPEED, _TOP_SPEED))
        self._angle += self._speed * _SECONDS
        self._last_draw = draw
        self._has_fallen = self._has_fallen or math.cos(self._angle) < 0.0
        self._steps += 1
        return self._observation(), reward, False, self._steps >= self.max_steps, self._info()

    def _observation(self) -> FloatArray:
        return np.array([math.cos(self._angle), math.sin(self._angle), self._speed], np.float32)

    def _info(self) -> dict[str, Any]:
        return {"is_success": np.float32(not self._has_fallen)}

    def _draw(self) -> Frame:
        frame = canvas(96, 96)
        tip = (0.5 - 0.4 * math.cos(self._angle), 0.5 - 0.4 * math.sin(self._angle))
        draw_line(frame, (0.5, 0.5), tip, RED)
        draw_line(frame, (0.52, 0.4), (0.52, 0.6), BLACK, 1)
        return frame
