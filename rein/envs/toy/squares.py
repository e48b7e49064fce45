"""An image world: coloured squares bounce, and the agent chases one of them."""

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rein.config import configurable
from rein.envs.drawing import PALETTE, Frame
from rein.envs.toy.world import ToyWorld

Image = NDArray[np.uint8]

_MOVES = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]])


@configurable
class BouncingSquaresEnv(ToyWorld[Image, int]):
    """Shows coloured squares that bounce off the walls; the agent's own square is white.

    Observations are channel-first uint8 images. Actions: 0 stays, 1 up, 2 down, 3 left, 4 right. The reward is
    1 at every step at which the white square overlaps the first (blue) one, else 0. Square 0 moves at
    one pixel per axis and step, the agent at `player_speed`, so it can always be caught.

    Args:
        image_size: height and width in pixels.
        num_squares: bouncing squares, at most 6.
        square_size: side in pixels.
        player_speed: pixels per step.
        episode_length: in steps, a truncation.
        render_mode: see `ToyWorld`.
    """

    def __init__(
        self,
        image_size: int = 32,
        num_squares: int = 2,
        square_size: int = 6,
        player_speed: int = 2,
        episode_length: int = 100,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(render_mode)
        if not 1 <= num_squares <= len(PALETTE):
            raise ValueError(f"num_squares must be 1 to {len(PALETTE)}; got {num_squares}.")
        if square_size >= image_size:
            raise ValueError(f"{square_size=} does not fit into {image_size=}.")
        self.image_size = image_size
        self.num_squares = num_squares
        self.square_size = square_size
        self.player_speed = player_speed
        self.episode_length = episode_length
        self.observation_space = gym.spaces.Box(0, 255, (3, image_size, image_size), np.uint8)
        self.action_space = gym.spaces.Discrete(len(_MOVES))
        self._corners = np.zeros((num_squares, 2), np.int64)
        self._velocities = np.ones((num_squares, 2), np.int64)
        self._player = np.zeros(2, np.int64)
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Image, dict[str, Any]]:
        """Places all squares at random."""
        super().reset(seed=seed)
        room = self.image_size - self.square_size + 1
        self._corners = self.np_random.integers(0, room, (self.num_squares, 2))
        signs = self.np_random.integers(0, 2, (self.num_squares, 2)) * 2 - 1
        self._velocities = signs * (1 + np.arange(self.num_squares)[:, None] // 2)
        self._player = self.np_random.integers(0, room, 2)
        self._steps = 0
        return self._observe(), {}

    def step(self, action: int) -> tuple[Image, float, bool, bool, dict[str, Any]]:
        """Moves the player and all squares."""
        self._check_action(action)
        limit = self.image_size - self.square_size
        moved = self._corners + self._velocities
        bounced = (moved < 0) | (moved > limit)
        self._velocities = np.where(bounced, -self._velocities, self._velocities)
        self._corners = np.clip(self._corners + self._velocities, 0, limit)
        self._player = np.clip(self._player + self.player_speed * _MOVES[action], 0, limit)
        self._steps += 1
        overlap = np.all(np.abs(self._player - self._corners[0]) < self.square_size)
        return self._observe(), float(overlap), False, self._steps >= self.episode_length, {}

    def _observe(self) -> Image:
        image = np.zeros((3, self.image_size, self.image_size), np.uint8)
        for (top, left), color in zip(self._corners, PALETTE, strict=False):
            self._paint(image, top, left, np.array(color, np.uint8))
        self._paint(image, self._player[0], self._player[1], np.full(3, 255, np.uint8))
        return image

    def _paint(self, image: Image, top: int, left: int, color: Image) -> None:
        side = self.square_size
        image[:, top : top + side, left : left + side] = color[:, None, None]

    def _draw(self) -> Frame:
        scale = max(1, 128 // self.image_size)
        frame = self._observe().transpose(1, 2, 0)
        return np.ascontiguousarray(frame.repeat(scale, axis=0).repeat(scale, axis=1))
