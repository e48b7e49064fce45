"""A game seen as pixels: a ball falls, and a paddle is to be under it."""

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rein.config import configurable
from rein.envs.drawing import Frame
from rein.envs.toy.world import ToyWorld

Image = NDArray[np.uint8]


@configurable
class CatchEnv(ToyWorld[Image, int]):
    """Shows a ball that falls a row per step and drifts aside, and a paddle in the last row.

    Observations are uint8 images [image_size, image_size, 1] of single pixels: 255 for the ball, 128 for the paddle. The
    drift, -1, 0 or 1 columns per step, is drawn with the episode and not shown: two images tell it, and following the ball
    does without. Actions: 0 left, 1 stay, 2 right, by one pixel. An episode ends when the ball reaches the last row, with a
    reward of 1 if it falls on the paddle and of -1 if not; a ball bounces off the walls, and can always be caught.

    Args:
        image_size: height and width in pixels.
        paddle_size: width of the paddle in pixels, odd.
        render_mode: see `ToyWorld`.
    """

    def __init__(self, image_size: int = 12, paddle_size: int = 3, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        if paddle_size % 2 == 0 or not 1 <= paddle_size <= image_size:
            raise ValueError(f"paddle_size must be odd, from 1 to {image_size=}; got {paddle_size}.")
        self.image_size = image_size
        self.paddle_size = paddle_size
        self.observation_space = gym.spaces.Box(0, 255, (image_size, image_size, 1), np.uint8)
        self.action_space = gym.spaces.Discrete(3)
        self._row = self._column = self._drift = self._paddle = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Image, dict[str, Any]]:
        """Drops a ball from anywhere in the first row; the paddle is in the middle."""
        super().reset(seed=seed)
        self._row, self._paddle = 0, self.image_size // 2
        self._column = int(self.np_random.integers(self.image_size))
        self._drift = int(self.np_random.integers(-1, 2))
        return self._observe(), {}

    def step(self, action: int) -> tuple[Image, float, bool, bool, dict[str, Any]]:
        """Moves paddle and ball."""
        self._check_action(action)
        half, last = self.paddle_size // 2, self.image_size - 1
        self._paddle = min(max(self._paddle + int(action) - 1, half), last - half)
        if not 0 <= self._column + self._drift <= last:
            self._drift = -self._drift
        self._column += self._drift
        self._row += 1
        has_landed = self._row == last
        reward = 0.0
        if has_landed:
            reward = 1.0 if abs(self._column - self._paddle) <= half else -1.0
        return self._observe(), reward, has_landed, False, {}

    def _observe(self) -> Image:
        image = np.zeros((self.image_size, self.image_size, 1), np.uint8)
        half = self.paddle_size // 2
        image[-1, self._paddle - half : self._paddle + half + 1] = 128
        image[self._row, self._column] = 255
        return image

    def _draw(self) -> Frame:
        scale = max(1, 128 // self.image_size)
        frame = self._observe().repeat(3, axis=2)
        return np.ascontiguousarray(frame.repeat(scale, axis=0).repeat(scale, axis=1))
