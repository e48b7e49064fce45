"""Robots that reach goals: the Fetch and Hand tasks of gymnasium-robotics, by id."""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rein.config import configurable
from rein.envs.loaders.wrapping import World, Wrapper, take_off_time_limit, wrap_world


@configurable
def load(
    environment_name: str,
    env_id: int | None = None,
    concat_desired_goal: bool = True,
    discount: float = 1.0,
    max_episode_steps: int | None = None,
    sparse_reward: bool = False,
    use_success_wrapper: bool = True,
    gym_env_wrappers: Sequence[Wrapper] = (),
    alf_env_wrappers: Sequence[Wrapper] = (),
    **kwargs: Any,
) -> World:
    """One task by its id, such as "FetchReach-v4".

    Args:
        environment_name: id of a world with `observation`, `achieved_goal` and `desired_goal`.
        env_id: which world of a batch it is; not used.
        concat_desired_goal: whether the observation is one vector, the observation with the goal behind it.
        discount: must be 1.
        max_episode_steps: time limit in steps of the agent; None for that of the id, 0 for none.
        sparse_reward: whether rewards are 0 and 1 instead of -1 and 0.
        use_success_wrapper: whether an episode ends when its goal is reached.
        gym_env_wrappers: applied in order to the world, before the time limit.
        alf_env_wrappers: applied in order after it.
        **kwargs: for the world, such as `render_mode`.
    """
    from rein.envs import suites

    try:
        import gymnasium_robotics  # type: ignore[import-not-found]

        gym.register_envs(gymnasium_robotics)
    except ImportError:
        if environment_name.startswith(("Fetch", "Hand")):
            raise ImportError(f"{environment_name} needs gymnasium-robotics: pip install gymnasium-robotics") from None
    env, own_limit = take_off_time_limit(suites.load(environment_name, **kwargs))
    if use_success_wrapper:
        env = EndsAtSuccess(env)
    if sparse_reward:
        env = gym.wrappers.TransformReward(env, _one_more)
    if concat_desired_goal:
        env = GoalBehind(env)
    limit = own_limit if max_episode_steps is None else max_episode_steps
    return wrap_world(env, discount, limit, gym_env_wrappers, alf_env_wrappers, image_channel_first=True)


def _one_more(reward: Any) -> float:
    return float(reward) + 1.0


class EndsAtSuccess(gym.Wrapper[Any, Any, Any, Any]):
    """A world whose episodes end when `info["is_success"]` says that the goal is reached."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return observation, reward, bool(terminated or info.get("is_success")), truncated, info


@configurable
class SuccessWrapper(gym.Wrapper[Any, Any, Any, Any]):
    """A world whose episodes count as successful only from a step on, such as the last."""

    def __init__(self, env: gym.Env[Any, Any], since_episode_steps: int) -> None:
        """Wraps.

        Args:
            env: tells `info["is_success"]`.
            since_episode_steps: steps of an episode before which it is no success, whatever the world says.
        """
        super().__init__(env)
        self._since = since_episode_steps
        self._steps = 0

    def reset(self, **arguments: Any) -> tuple[Any, dict[str, Any]]:
        """Begins an episode."""
        self._steps = 0
        return self.env.reset(**arguments)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """One step."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._steps += 1
        if self._steps < self._since and "is_success" in info:
            info = {**info, "is_success": False}
        return observation, reward, bool(terminated), bool(truncated), info


class GoalBehind(gym.ObservationWrapper[Any, Any, Any]):
    """Shows the observation with the desired goal behind it, as one vector."""

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        """Wraps.

        Args:
            env: observes a dict with `observation` and `desired_goal`, both vectors.
        """
        super().__init__(env)
        inner = env.observation_space
        if not isinstance(inner, spaces.Dict) or not {"observation", "desired_goal"} <= set(inner.spaces):
            raise ValueError(f"{env} has no goals: it must observe a dict with 'observation' and 'desired_goal'")
        self.observation_space = spaces.flatten_space(spaces.Tuple((inner["observation"], inner["desired_goal"])))

    def observation(self, observation: Any) -> Any:
        """The vector."""
        parts = (observation["observation"], observation["desired_goal"])
        return np.concatenate(parts).astype(self.observation_space.dtype)
