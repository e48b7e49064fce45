"""A partially observable task that needs one bit of memory."""

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rein.config import configurable
from rein.envs.drawing import Frame, bar_chart
from rein.envs.toy.world import ToyWorld

FloatArray = NDArray[np.float32]


@configurable
class RecallEnv(ToyWorld[FloatArray, int]):
    """Shows a cue, then asks for it when it can no longer be seen.

    The first observation is the one-hot cue; `delay - 1` blank observations follow, then the question
    (only the last entry is 1), which looks the same for every cue. Answering it with the cue pays 1,
    anything else 0; earlier actions are ignored. With the default `delay=1` an episode has two steps.

    The best return is 1. A policy that sees only the current observation cannot beat chance,
    `1 / num_cues`. (A policy that is also given its previous action can store the cue in it; mask
    `prev_action` when this must not happen.)

    Args:
        num_cues: number of cues, and of actions.
        delay: steps between seeing the cue and the question, at least 1.
        render_mode: see `ToyWorld`.
    """

    optimal_return = 1.0

    def __init__(self, num_cues: int = 2, delay: int = 1, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        if delay < 1:
            raise ValueError(f"The question comes at least one step after the cue; got {delay=}.")
        self.num_cues = num_cues
        self.delay = delay
        self.observation_space = gym.spaces.Box(0.0, 1.0, (num_cues + 1,), np.float32)
        self.action_space = gym.spaces.Discrete(num_cues)
        self._cue = 0
        self._steps = 0

    @property
    def chance_return(self) -> float:
        """Expected return of the best policy without memory."""
        return 1.0 / self.num_cues

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[FloatArray, dict[str, Any]]:
        """Draws a cue and shows it."""
        super().reset(seed=seed)
        self._cue = int(self.np_random.integers(self.num_cues))
        self._steps = 0
        return self._observe(), {}

    def step(self, action: int) -> tuple[FloatArray, float, bool, bool, dict[str, Any]]:
        """Waits for the question, then judges the answer."""
        self._check_action(action)
        is_answer = self._steps == self.delay
        reward = float(is_answer and action == self._cue)
        self._steps += 1
        return self._observe(), reward, is_answer, False, {}

    def _observe(self) -> FloatArray:
        observation = np.zeros(self.num_cues + 1, np.float32)
        if self._steps == 0:
            observation[self._cue] = 1.0
        elif self._steps == self.delay:
            observation[-1] = 1.0
        return observation

    def _draw(self) -> Frame:
        return bar_chart(self._observe(), self.num_cues)
