"""Worlds of Gymnasium and of all suites, by id."""

from collections.abc import Sequence
from typing import Any

from rein.config import configurable
from rein.envs.loaders.wrapping import World, Wrapper, take_off_time_limit, wrap_world


@configurable
def load(
    environment_name: str,
    env_id: int | None = None,
    discount: float = 1.0,
    max_episode_steps: int | None = None,
    gym_env_wrappers: Sequence[Wrapper] = (),
    alf_env_wrappers: Sequence[Wrapper] = (),
    image_channel_first: bool = True,
    **kwargs: Any,
) -> World:
    """One world by its id. Atari games come as the emulator gives them, ready for `DMAtariPreprocessing`.

    Args:
        environment_name: what `rein.envs.suites.load` takes.
        env_id: which world of a batch it is; not used.
        discount: must be 1.
        max_episode_steps: time limit in steps of the agent; None for that of the id, 0 for none.
        gym_env_wrappers: applied in order to the world, before the time limit.
        alf_env_wrappers: applied in order after it.
        image_channel_first: whether to move the channels of images to the front.
        **kwargs: for the world, such as `render_mode`.
    """
    from rein.envs import suites
    from rein.envs.suites.atari import ATARI, make_emulator

    suite = suites.suite_of(environment_name)
    if suite is ATARI:
        suite.require(environment_name, render=kwargs.get("render_mode") is not None)
        env, own_limit = make_emulator(environment_name, **kwargs), None
    else:
        env, own_limit = take_off_time_limit(suites.load(environment_name, **kwargs))
    limit = own_limit if max_episode_steps is None else max_episode_steps
    return wrap_world(env, discount, limit, gym_env_wrappers, alf_env_wrappers, image_channel_first)
