"""A task with masks: a way of twelve places, where two of twenty actions, others at each place, lead back and on."""

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

import rein

PLACES, ACTIONS, LONGEST = 12, 20, 40
BEST = 1.0


class MaskedWay(gym.Env[Any, int]):
    """Reward 1 at the end of the way. Actions that are not valid change nothing, and are counted in `illegal`.

    Args:
        tells: whether `info["action_mask"]` says which are valid.
    """

    illegal = 0

    def __init__(self, tells: bool = True) -> None:
        self._tells = tells
        self.observation_space = spaces.Discrete(PLACES)
        self.action_space = spaces.Discrete(ACTIONS)
        self._moves = np.random.default_rng(0).permuted(np.tile(np.arange(ACTIONS), (PLACES, 1)), axis=1)[:, :2]
        self._place = self._time = 0

    def _told(self) -> tuple[int, dict[str, NDArray[np.int8]]]:
        mask = np.zeros(ACTIONS, np.int8)
        mask[self._moves[self._place]] = 1
        return self._place, {"action_mask": mask} if self._tells else {}

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._place = self._time = 0
        return self._told()

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._time += 1
        back, on = self._moves[self._place]
        if action == on:
            self._place += 1
        elif action == back:
            self._place = max(0, self._place - 1)
        else:
            MaskedWay.illegal += 1
        is_there = self._place == PLACES - 1
        return *self._told()[:1], float(is_there), is_there, self._time >= LONGEST, self._told()[1]


def illegal_and_return(algorithm: str, steps: int, tells: bool, seed: int) -> tuple[int, float]:
    """How often an invalid action was taken in training by defaults, and the mean return afterwards."""
    MaskedWay.illegal = 0
    settings = {"TrainerConfig.evaluate": False}
    with rein.make(algorithm, env=lambda: MaskedWay(tells), seed=seed, settings=settings) as agent:
        agent.train(steps)
        illegal = MaskedWay.illegal
        return illegal, agent.evaluate(20).mean
