"""Worlds with vector rewards: a treasure hunt with a known front, and a task under a constraint."""

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rein.config import configurable
from rein.envs.drawing import (
    BLACK,
    BLUE,
    RED,
    WHITE,
    YELLOW,
    Frame,
    bar_chart,
    canvas,
    fill_box,
    fill_disc,
)
from rein.envs.toy.world import ToyWorld, scalar_info_space

FloatArray = NDArray[np.float32]
VectorStep = tuple[FloatArray, FloatArray, bool, bool, dict[str, Any]]

_DEPTHS = np.array([1, 2, 3, 4, 4, 4, 7, 7, 9, 10])
_TREASURES = np.array([1, 2, 3, 5, 8, 16, 24, 50, 74, 124], np.float32)
_MOVES = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]])


@configurable
class DeepSeaTreasureEnv(ToyWorld[FloatArray, int]):
    """Steers a submarine on an 11 x 10 grid to one of ten treasures; deeper ones are worth more.

    Vamplew et al. (2011), "Empirical evaluation methods for multiobjective reinforcement learning".
    The reward is the vector (treasure found, -1); reaching a treasure terminates. `pareto_front` is
    every return worth having: one (treasure, -steps) pair per treasure.

    Actions: 0 up, 1 down, 2 left, 3 right; moves into the sea floor or off the grid do nothing. The
    observation is (row / 10, column / 9).

    Args:
        max_steps: time limit in steps.
        render_mode: see `ToyWorld`.
    """

    def __init__(self, max_steps: int = 100, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.max_steps = max_steps
        self.observation_space = gym.spaces.Box(0.0, 1.0, (2,), np.float32)
        self.action_space = gym.spaces.Discrete(4)
        self.reward_space = gym.spaces.Box(np.array([0.0, -1.0], np.float32), np.array([124.0, -1.0], np.float32))
        self._position = np.zeros(2, np.int64)
        self._steps = 0

    @property
    def pareto_front(self) -> NDArray[np.float32]:
        """The [10, 2] undominated undiscounted returns, shallow treasures first."""
        steps = np.arange(len(_DEPTHS)) + _DEPTHS
        return np.stack([_TREASURES, -steps.astype(np.float32)], axis=1)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[FloatArray, dict[str, Any]]:
        """Returns the submarine to the top left corner."""
        super().reset(seed=seed)
        self._position = np.zeros(2, np.int64)
        self._steps = 0
        return self._observe(), {}

    def step(self, action: int) -> VectorStep:  # type: ignore[override]
        """Moves one cell; the reward has shape [2]."""
        self._check_action(action)
        row, column = map(int, self._position + _MOVES[action])
        if 0 <= column < len(_DEPTHS) and 0 <= row <= _DEPTHS[column]:
            self._position = np.array([row, column])
        self._steps += 1
        row, column = map(int, self._position)
        terminated = bool(row == _DEPTHS[column])
        reward = np.array([_TREASURES[column] if terminated else 0.0, -1.0], np.float32)
        truncated = not terminated and self._steps >= self.max_steps
        return self._observe(), reward, terminated, truncated, {}

    def _observe(self) -> FloatArray:
        return (self._position / np.array([10.0, 9.0])).astype(np.float32)

    def _draw(self) -> Frame:
        frame = canvas(11 * 12, 10 * 12, BLUE)
        for column, depth in enumerate(_DEPTHS):
            fill_box(frame, depth / 11, column / 10, 1.0, 1 / 10, BLACK)
            fill_box(frame, depth / 11, column / 10, 1 / 11, 1 / 10, YELLOW)
        row, column = map(int, self._position)
        fill_box(frame, (row + 0.2) / 11, (column + 0.2) / 10, 0.6 / 11, 0.6 / 10, WHITE)
        return frame


@configurable
class TwoRewardsEnv(ToyWorld[FloatArray, FloatArray]):
    """Sets a speed at every step; speed is the task, its square is a cost to be kept under a bound.

    With speed v = (action + 1) / 2 in [0, 1] the reward vector is (v, -v**2). Without a constraint v = 1
    is best. Under the constraint "average second reward >= -cost_bound" the best policy is the constant
    v = sqrt(cost_bound), because a spread of speeds costs more (Jensen); its Lagrange multiplier is
    1 / (2 v). With the default bound 0.25: v = 0.5, action 0, return (5, -2.5), multiplier 1.

    Args:
        cost_bound: bound on the average cost per step, in (0, 1]; only documents the optimum.
        episode_length: in steps, a truncation.
        render_mode: see `ToyWorld`.
    """

    def __init__(
        self,
        cost_bound: float = 0.25,
        episode_length: int = 10,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode)
        if not 0.0 < cost_bound <= 1.0:
            raise ValueError(f"cost_bound must lie in (0, 1]; got {cost_bound}.")
        self.cost_bound = cost_bound
        self.episode_length = episode_length
        self.observation_space = gym.spaces.Box(np.zeros(2, np.float32), np.array([1.0, episode_length], np.float32))
        self.action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.reward_space = gym.spaces.Box(np.array([0.0, -1.0], np.float32), np.array([1.0, 0.0], np.float32))
        self.env_info_space = scalar_info_space("cost")
        self._travelled = 0.0
        self._steps = 0

    @property
    def optimal_return(self) -> FloatArray:
        """The [2] return of the best policy that keeps the constraint."""
        speed = np.sqrt(self.cost_bound)
        return np.array([speed, -self.cost_bound], np.float32) * self.episode_length

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[FloatArray, dict[str, Any]]:
        """Returns to the start of the track."""
        super().reset(seed=seed)
        self._travelled = 0.0
        self._steps = 0
        return self._observe(), {"cost": np.float32(0.0)}

    def step(self, action: FloatArray) -> VectorStep:  # type: ignore[override]
        """Travels at the chosen speed; the reward has shape [2]."""
        self._check_action(action)
        speed = (float(action[0]) + 1.0) / 2.0
        self._travelled += speed
        self._steps += 1
        reward = np.array([speed, -(speed**2)], np.float32)
        truncated = self._steps >= self.episode_length
        return self._observe(), reward, False, truncated, {"cost": np.float32(speed**2)}

    def _observe(self) -> FloatArray:
        progress = min(self._steps / self.episode_length, 1.0)
        return np.array([progress, min(self._travelled, self.episode_length)], np.float32)

    def _draw(self) -> Frame:
        frame = bar_chart(self._observe() / np.array([1.0, self.episode_length]), None)
        fill_disc(frame, 0.9, min(self._travelled / self.episode_length, 1.0), 0.04, RED)
        return frame
