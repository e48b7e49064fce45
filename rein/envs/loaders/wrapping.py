"""What all loaders do with a world that they have made."""

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

from rein.envs.wrappers.observations import ChannelFirst

World = gym.Env[Any, Any]
Wrapper = Callable[[World], World]


def take_off_time_limit(env: World) -> tuple[World, int | None]:
    """The world without its time limit, and that limit in steps; None if it has none."""
    if isinstance(env, TimeLimit):
        return env.env, int(env._max_episode_steps)
    return env, None


def wrap_world(
    env: World,
    discount: float,
    max_episode_steps: int | None,
    gym_env_wrappers: Sequence[Wrapper],
    alf_env_wrappers: Sequence[Wrapper],
    image_channel_first: bool,
) -> World:
    """Applies the wrappers from the inside out, the time limit between the two kinds.

    So a limit counts the steps of the agent, not those that a wrapper such as `FrameSkip` takes for it.

    Args:
        env: without a time limit.
        discount: of steps that end no episode; must be 1.
        max_episode_steps: limit in steps; None or 0 for none.
        gym_env_wrappers: applied before the limit.
        alf_env_wrappers: applied after it.
        image_channel_first: whether channels of images move from last to first, after the wrappers of the first kind.
    """
    if discount != 1.0:
        raise ValueError(
            f"discount is {discount}: the discount of a TimeStep says only where episodes terminate. Set gamma of the loss"
        )
    for wrapper in gym_env_wrappers:
        env = wrapper(env)
    if image_channel_first and _has_images(env.observation_space):
        env = ChannelFirst(env)
    if max_episode_steps:
        env = TimeLimit(env, max_episode_steps)
    for wrapper in alf_env_wrappers:
        env = wrapper(env)
    return env


def _has_images(space: spaces.Space[Any]) -> bool:
    """Whether there is an image that `ChannelFirst` would change."""
    if isinstance(space, spaces.Dict):
        return any(_has_images(child) for child in space.spaces.values())
    if isinstance(space, spaces.Tuple):
        return any(_has_images(child) for child in space.spaces)
    is_bytes = isinstance(space, spaces.Box) and space.dtype == np.uint8
    return is_bytes and (len(space.shape) == 2 or (len(space.shape) == 3 and space.shape[-1] <= 12))  # type: ignore[arg-type,index]
