"""What all toy worlds share: rendering by numpy, action checks, and state that can be snapshot."""

from abc import abstractmethod
from typing import Any, Generic, TypeVar

import gymnasium as gym
import numpy as np

from rein.envs.drawing import Frame

ObsT = TypeVar("ObsT")
ActT = TypeVar("ActT")


class ToyWorld(gym.Env[ObsT, ActT], Generic[ObsT, ActT]):
    """A small world whose whole state is `np_random` plus numbers and arrays in `__dict__`.

    Copying those attributes (or pickling the world) is an exact snapshot. Episode limits belong to
    the world itself, so that it behaves the same with and without `gymnasium.make`.

    Args:
        render_mode: None, or "rgb_array" to let `render()` return a [height, width, 3] uint8 frame.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012 (Gymnasium's name)
    # Gymnasium types spaces by NumPy scalars, which no `int` action fits.
    observation_space: Any
    action_space: Any

    def __init__(self, render_mode: str | None = None) -> None:
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"{type(self).__name__} renders only 'rgb_array'; got render_mode={render_mode!r}.")
        self.render_mode = render_mode

    def render(self) -> Frame | None:  # type: ignore[override]
        """Returns a frame, or None unless the world was made with `render_mode="rgb_array"`."""
        return self._draw() if self.render_mode == "rgb_array" else None

    @abstractmethod
    def _draw(self) -> Frame:
        """Returns the current state as a [height, width, 3] uint8 frame."""

    def _check_action(self, action: Any) -> None:
        if not self.action_space.contains(action):
            raise ValueError(f"{type(self).__name__} got action {action!r}, which is not in {self.action_space}.")


def scalar_info_space(*names: str) -> gym.spaces.Dict:
    """Returns the `env_info_space` of worlds whose info holds these float scalars at every step."""
    unbounded = gym.spaces.Box(-np.inf, np.inf, (), np.float32)
    return gym.spaces.Dict(dict.fromkeys(names, unbounded))
