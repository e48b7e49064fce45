"""A sparse-reward room in the plane, a small stand-in for point mazes."""

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rein.config import configurable
from rein.envs.drawing import BLACK, BLUE, GREEN, Frame, canvas, fill_box, fill_disc
from rein.envs.toy.world import ToyWorld, scalar_info_space

FloatArray = NDArray[np.float32]

_GOAL = np.array([0.85, 0.15])
_WALL = 0.5


@configurable
class SparseRoomEnv(ToyWorld[FloatArray, FloatArray]):
    """Walks a point through a gap in a wall to a goal disc; pays 1 there and nothing before.

    The unit square is split by a wall at x = 0.5 that is open for y in [1 - gap, 1]. The point starts near
    the lower left corner; the goal (radius `goal_radius`) is at (0.85, 0.15), behind the wall, so that the
    straight way is blocked. The best return is 1.

    Args:
        speed: largest movement per step and axis.
        gap: width of the opening, in (0, 1]; 1 removes the wall.
        goal_radius: distance that counts as arrived.
        max_steps: time limit in steps.
        render_mode: see `ToyWorld`.
    """

    optimal_return = 1.0

    def __init__(
        self,
        speed: float = 0.05,
        gap: float = 0.3,
        goal_radius: float = 0.1,
        max_steps: int = 200,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode)
        if not 0.0 < gap <= 1.0:
            raise ValueError(f"gap must lie in (0, 1]; got {gap}.")
        self.speed = speed
        self.gap = gap
        self.goal_radius = goal_radius
        self.max_steps = max_steps
        self.observation_space = gym.spaces.Box(0.0, 1.0, (2,), np.float32)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.env_info_space = scalar_info_space("is_success")
        self._position = np.zeros(2)
        self._steps = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[FloatArray, dict[str, Any]]:
        """Starts near the lower left corner."""
        super().reset(seed=seed)
        self._position = self.np_random.uniform(0.05, 0.25, 2)
        self._steps = 0
        return self._observe(), {"is_success": np.float32(0.0)}

    def step(self, action: FloatArray) -> tuple[FloatArray, float, bool, bool, dict[str, Any]]:
        """Moves by `speed * action`, first along y, then along x unless the wall is in the way."""
        self._check_action(action)
        x, y = map(float, self._position)
        y = float(np.clip(y + self.speed * action[1], 0.0, 1.0))
        reached = float(np.clip(x + self.speed * action[0], 0.0, 1.0))
        crosses = (x < _WALL) != (reached < _WALL)
        if not crosses or y >= 1.0 - self.gap:
            x = reached
        self._position = np.array([x, y])
        self._steps += 1
        arrived = bool(np.linalg.norm(self._position - _GOAL) <= self.goal_radius)
        truncated = not arrived and self._steps >= self.max_steps
        info = {"is_success": np.float32(arrived)}
        return self._observe(), float(arrived), arrived, truncated, info

    def _observe(self) -> FloatArray:
        return self._position.astype(np.float32)

    def _draw(self) -> Frame:
        frame = canvas(128, 128)
        fill_box(frame, self.gap, _WALL - 0.01, 1.0 - self.gap, 0.02, BLACK)
        fill_disc(frame, 1.0 - _GOAL[1], _GOAL[0], self.goal_radius, GREEN)
        fill_disc(frame, 1.0 - self._position[1], self._position[0], 0.03, BLUE)
        return frame
