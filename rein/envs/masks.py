"""Which actions are valid, wherever a world says it."""

from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

__all__ = ["valid_actions"]


def valid_actions(env: gym.Env[Any, Any], observation: Any, info: Any) -> NDArray[np.bool_] | None:
    """The mask of valid actions, [n], wherever a world offers it; None if it does not.

    Args:
        env: the world.
        observation: its last one; a Dict may hold `action_mask` or `valid_action_mask`.
        info: its last one; may hold `action_mask`.
    """
    for holder in (observation, info):
        for key in ("action_mask", "valid_action_mask"):
            if isinstance(holder, dict) and key in holder:
                return np.asarray(holder[key]).astype(np.bool_)
    if not env.has_wrapper_attr("action_masks"):
        return None
    return np.asarray(env.get_wrapper_attr("action_masks")()).astype(np.bool_)
