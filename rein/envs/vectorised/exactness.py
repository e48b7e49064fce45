"""Whether a compiled batch gives the trajectories of the installed Gymnasium, to the last bit."""

import logging
from collections.abc import Callable

import gymnasium as gym
import numpy as np
import torch

from rein.envs.batch import batch_seeds
from rein.envs.environment import Environment
from rein.envs.shared_block import LAST, MID

__all__ = ["agrees_with_gymnasium"]

logger = logging.getLogger("rein.envs")

_STEPS = 300
_SEED = 20240229


def agrees_with_gymnasium(env_name: str, make: Callable[[int], Environment]) -> bool:
    """Whether a batch of one world agrees with Gymnasium's over some hundred random steps; a warning if not.

    Args:
        env_name: a Gymnasium id.
        make: makes the batch of one world from a seed.
    """
    with make(_SEED) as batch:
        difference = _first_difference(env_name, batch)
    if difference is not None:
        logger.warning("The compiled %s differs from Gymnasium's at step %d, so it is not used.", env_name, difference)
    return difference is None


def _first_difference(env_name: str, batch: Environment) -> int | None:
    single = gym.make(env_name, disable_env_checker=True)
    seed = batch_seeds(_SEED, 1)[0]
    single.action_space.seed(seed)
    observation, _ = single.reset(seed=seed)
    step = batch.reset()
    shape = step.prev_action.shape
    ended = False
    try:
        for number in range(_STEPS):
            if not np.array_equal(step.observation[0].numpy(), np.asarray(observation, dtype=np.float32)):
                return number
            action = single.action_space.sample()
            step = batch.step(torch.as_tensor(action).reshape(shape))
            if ended:
                observation, _ = single.reset()
                ended = False
                continue
            observation, reward, terminated, truncated, _ = single.step(action)
            ended = terminated or truncated
            flags = (float(step.reward[0]), float(step.discount[0]), int(step.step_type[0]))
            if flags != (float(np.float32(reward)), 0.0 if terminated else 1.0, LAST if ended else MID):
                return number
    finally:
        single.close()
    return None
