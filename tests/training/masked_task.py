"""A task with masks: a way of twelve places, where two of twenty actions, others at each place, lead back and on."""

import json
import tempfile
from pathlib import Path
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


SETTINGS: dict[str, dict[str, Any]] = {
    "sac": {
        "SacAlgorithm.use_entropy_reward": False,
        "TrainerConfig.unroll_length": 4,
        "TrainerConfig.mini_batch_size": 64,
    }
}
"""What is not by default. A reward for entropy, whose weight starts at 1 and falls by 0.03 % at most with each update, is for
15,000 updates more than the one reward at the end, which stops it; SAC then avoids the end. The rest is for speed."""


def illegal_and_curve(
    algorithm: str, steps: int, tells: bool, seed: int, num_evaluations: int
) -> tuple[int, list[tuple[int, float]]]:
    """How often an invalid action was taken in a training, and steps and mean return of each evaluation on the way.

    What is invalid in evaluations counts as well.
    """
    MaskedWay.illegal = 0
    settings = {"TrainerConfig.num_evals": num_evaluations, **SETTINGS.get(algorithm, {})}
    with tempfile.TemporaryDirectory() as directory:
        where = Path(directory) / "run"
        with rein.make(algorithm, lambda: MaskedWay(tells), seed=seed, directory=where, settings=settings) as agent:
            agent.train(steps, progress=False)
        lines = (where / "evaluations.jsonl").read_text().splitlines()
    return MaskedWay.illegal, [(one["env_steps"], one["mean_return"]) for one in map(json.loads, lines)]
