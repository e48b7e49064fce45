"""A walk along a chain whose optimal return follows from dynamic programming."""

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rein.config import configurable
from rein.envs.drawing import BLACK, BLUE, GREEN, Frame, canvas, draw_line, fill_disc
from rein.envs.toy.world import ToyWorld

FloatArray = NDArray[np.float32]


@configurable
class ChainEnv(ToyWorld[FloatArray, int]):
    """Starts at the left end of a chain; action 1 steps right, action 0 steps left (or stays at 0).

    Reaching the right end pays 1 and terminates; every step costs `step_cost`, and a step that ends
    in state 0 pays `left_reward`, a distraction that makes the chain an exploration problem. With
    the defaults the best return is `1 - 4 * 0.01 = 0.96`. Observations are one-hot.

    Args:
        num_states: length of the chain, at least 2.
        step_cost: subtracted at every step.
        left_reward: earned by every step that ends in state 0.
        slip: probability that the step goes the other way.
        max_steps: time limit in steps (a truncation); default `4 * num_states`.
        render_mode: see `ToyWorld`.
    """

    def __init__(
        self,
        num_states: int = 5,
        step_cost: float = 0.01,
        left_reward: float = 0.0,
        slip: float = 0.0,
        max_steps: int | None = None,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode)
        if num_states < 2:
            raise ValueError(f"A chain needs at least 2 states; got num_states={num_states}.")
        self.num_states = num_states
        self.step_cost = step_cost
        self.left_reward = left_reward
        self.slip = slip
        self.max_steps = 4 * num_states if max_steps is None else max_steps
        self.observation_space = gym.spaces.Box(0.0, 1.0, (num_states,), np.float32)
        self.action_space = gym.spaces.Discrete(2)
        self._state = 0
        self._steps = 0

    def optimal_return(self, discount: float = 1.0) -> float:
        """Returns the expected return of the best policy within `max_steps`, from the start."""
        last = self.num_states - 1
        values = np.zeros(self.num_states)
        for _ in range(self.max_steps):
            outcome = np.zeros((2, self.num_states))
            for state in range(last):
                for direction in (0, 1):
                    reached = self._neighbor(state, direction)
                    future = 0.0 if reached == last else discount * values[reached]
                    outcome[direction, state] = self._reward(reached) + future
            mixed = (1.0 - self.slip) * outcome + self.slip * outcome[::-1]
            values = mixed.max(axis=0)
        return float(values[0])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[FloatArray, dict[str, Any]]:
        """Returns to the left end."""
        super().reset(seed=seed)
        self._state = 0
        self._steps = 0
        return self._observe(), {}

    def step(self, action: int) -> tuple[FloatArray, float, bool, bool, dict[str, Any]]:
        """Moves one state."""
        self._check_action(action)
        slipped = self.slip > 0.0 and self.np_random.random() < self.slip
        self._state = self._neighbor(self._state, int(action) ^ int(slipped))
        self._steps += 1
        terminated = self._state == self.num_states - 1
        truncated = not terminated and self._steps >= self.max_steps
        return self._observe(), self._reward(self._state), terminated, truncated, {}

    def _neighbor(self, state: int, direction: int) -> int:
        return min(state + 1, self.num_states - 1) if direction else max(state - 1, 0)

    def _reward(self, reached: int) -> float:
        reward = -self.step_cost
        if reached == self.num_states - 1:
            reward += 1.0
        elif reached == 0:
            reward += self.left_reward
        return reward

    def _observe(self) -> FloatArray:
        return np.eye(self.num_states, dtype=np.float32)[self._state]

    def _draw(self) -> Frame:
        frame = canvas(64, 64 * self.num_states)
        draw_line(frame, (0.5, 0.0), (0.5, 1.0), BLACK)
        for state in range(self.num_states):
            color = BLUE if state == self._state else GREEN
            cell = frame[:, 64 * state : 64 * (state + 1)]
            fill_disc(cell, 0.5, 0.5, 0.4 if state == self._state else 0.15, color)
        return frame
