"""Tasks of the DeepMind Control Suite, as "domain:task"."""

from collections.abc import Sequence
from typing import Any

from gymnasium.wrappers import AddRenderObservation

from rein.config import configurable
from rein.envs.loaders.wrapping import World, Wrapper, wrap_world


@configurable
def load(
    environment_name: str = "cheetah:run",
    from_pixels: bool = True,
    image_size: int = 100,
    env_id: int | None = None,
    discount: float = 1.0,
    visualize_reward: bool = False,
    max_episode_steps: int | None = 1000,
    control_timestep: float | None = None,
    gym_env_wrappers: Sequence[Wrapper] = (),
    alf_env_wrappers: Sequence[Wrapper] = (),
    **kwargs: Any,
) -> World:
    """One task, seen by a camera or by the numbers of its state.

    Args:
        environment_name: "domain:task", such as "cheetah:run".
        from_pixels: whether the observation is an image uint8 [3, image_size, image_size]; else a float32 vector.
        image_size: height and width of images, in pixels.
        env_id: which world of a batch it is; not used.
        discount: must be 1.
        visualize_reward: whether colors of the scene show the reward.
        max_episode_steps: time limit in steps of the agent; None or 0 for none but that of the task.
        control_timestep: seconds between actions; None for those of the task.
        gym_env_wrappers: applied in order to the world, before the time limit.
        alf_env_wrappers: applied in order after it.
        **kwargs: for `rein.envs.suites.dm_control.DmControlEnv`.
    """
    from rein.envs import suites

    domain, separator, task = environment_name.partition(":")
    if not separator:
        raise ValueError(f"environment_name is {environment_name!r}: write 'domain:task', such as 'cheetah:run'")
    options: dict[str, Any] = dict(kwargs.pop("environment_kwargs", None) or {})
    if control_timestep is not None:
        options["control_timestep"] = control_timestep
    if from_pixels:
        kwargs = {"render_mode": "rgb_array", "width": image_size, "height": image_size, **kwargs}
    name = f"dm_control/{domain}-{task}"
    env = suites.load(name, environment_kwargs=options, visualize_reward=visualize_reward, **kwargs)
    if from_pixels:
        env = AddRenderObservation(env, render_only=True)
    return wrap_world(env, discount, max_episode_steps, gym_env_wrappers, alf_env_wrappers, image_channel_first=True)
