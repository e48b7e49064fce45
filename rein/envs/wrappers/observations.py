"""Wrappers that change what an agent sees."""

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from rein.config import configurable
from rein.envs.masks import valid_actions


@configurable
class TransformObservation(gym.wrappers.TransformObservation[Any, Any, Any]):
    """Applies `func` to every observation; `observation_space` describes the result."""


@configurable
class FilterObservation(gym.wrappers.FilterObservation[Any, Any, Any]):
    """Keeps only the named entries of a Dict or Tuple observation."""


@configurable
class FlattenObservation(gym.wrappers.FlattenObservation[Any, Any, Any]):
    """Turns any observation into one flat vector."""


@configurable
class GrayscaleObservation(gym.wrappers.GrayscaleObservation[Any, Any, Any]):
    """Turns [height, width, 3] images into gray ones."""


@configurable
class ResizeObservation(gym.wrappers.ResizeObservation[Any, Any, Any]):
    """Resizes [height, width(, channels)] images with OpenCV."""


@configurable
class TimeAwareObservation(gym.wrappers.TimeAwareObservation[Any, Any, Any]):
    """Adds the time left or passed in the episode to the observation."""


@configurable
class ChannelFirst(gym.ObservationWrapper[Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Moves the channels of every image from last to first, also inside Dict and Tuple observations.

    An image is a uint8 Box with three dimensions whose last one is no larger than `max_channels`, or a
    plain [height, width] uint8 Box, which gets one channel.

    Args:
        env: the world to wrap.
        max_channels: larger last dimensions are not taken for channels.
    """

    def __init__(self, env: gym.Env[Any, Any], max_channels: int = 12) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, max_channels=max_channels)
        gym.ObservationWrapper.__init__(self, env)
        self._max_channels = max_channels
        self._found = False
        self.observation_space, self._conversions = self._plan(env.observation_space)
        if not self._found:
            raise ValueError(f"ChannelFirst found no uint8 image with channels last in {env.observation_space}.")

    def observation(self, observation: Any) -> Any:
        """Returns the observation with channel-first images."""
        return _apply(self._conversions, observation)

    def _plan(self, space: spaces.Space[Any]) -> tuple[spaces.Space[Any], Any]:
        """Returns the new space and a nest of functions that convert into it."""
        if isinstance(space, spaces.Dict):
            named = {name: self._plan(child) for name, child in space.spaces.items()}
            conversions = {name: plan[1] for name, plan in named.items()}
            return spaces.Dict({name: plan[0] for name, plan in named.items()}), conversions
        if isinstance(space, spaces.Tuple):
            plans = [self._plan(child) for child in space.spaces]
            return spaces.Tuple([plan[0] for plan in plans]), tuple(plan[1] for plan in plans)
        if not (isinstance(space, spaces.Box) and space.dtype == np.uint8):
            return space, _unchanged
        if len(space.shape) == 2:
            convert: Callable[[Any], Any] = _add_channel
        elif len(space.shape) == 3 and space.shape[-1] <= self._max_channels:
            convert = _channels_to_front
        else:
            return space, _unchanged
        self._found = True
        return spaces.Box(convert(space.low), convert(space.high), dtype=np.uint8), convert


def _apply(conversions: Any, value: Any) -> Any:
    if isinstance(conversions, dict):
        return {name: _apply(child, value[name]) for name, child in conversions.items()}
    if isinstance(conversions, tuple):
        return tuple(_apply(child, part) for child, part in zip(conversions, value, strict=True))
    return conversions(value)


def _unchanged(value: Any) -> Any:
    return value


def _add_channel(image: Any) -> Any:
    return image[None]


def _channels_to_front(image: Any) -> Any:
    return np.ascontiguousarray(np.moveaxis(image, -1, 0))


# Which entries of the observation are velocities, by Gymnasium name without version.
_VELOCITIES: dict[str, tuple[int, ...]] = {
    "CartPole": (1, 3),
    "MountainCar": (1,),
    "MountainCarContinuous": (1,),
    "Pendulum": (2,),
    "Acrobot": (4, 5),
    "LunarLander": (2, 3, 5),
    "LunarLanderContinuous": (2, 3, 5),
    "InvertedPendulum": (2, 3),
    "Hopper": tuple(range(5, 11)),
    "Walker2d": tuple(range(8, 17)),
    "HalfCheetah": tuple(range(8, 17)),
    "Swimmer": tuple(range(3, 8)),
}


@configurable
class MaskVelocity(gym.ObservationWrapper[Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Hides velocities in a vector observation, so that a policy needs memory.

    Args:
        env: the world to wrap; its observation must be a flat Box.
        velocities: indices to hide; by default those known for classic control, LunarLander and the
            MuJoCo walkers.
        drop: whether to leave the entries out instead of setting them to 0.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        velocities: Sequence[int] | None = None,
        drop: bool = False,
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, velocities=velocities, drop=drop)
        gym.ObservationWrapper.__init__(self, env)
        space = env.observation_space
        if not isinstance(space, spaces.Box) or len(space.shape) != 1:
            raise ValueError(f"MaskVelocity needs a flat Box observation; got {space}.")
        if velocities is None:
            name = env.spec.name if env.spec is not None else type(env.unwrapped).__name__
            if name not in _VELOCITIES:
                raise ValueError(f"Which entries of {name!r} are velocities is not known: pass `velocities`.")
            velocities = _VELOCITIES[name]
        wrong = [index for index in velocities if not 0 <= index < space.shape[0]]
        if wrong:
            raise ValueError(f"velocities={wrong} lie outside an observation of {space.shape}.")
        keep = np.ones(space.shape, bool)
        keep[list(velocities)] = False
        self._keep = keep
        self._drop = drop
        low = self.observation(space.low)
        self.observation_space = spaces.Box(low, self.observation(space.high), dtype=space.dtype)  # type: ignore[arg-type]

    def observation(self, observation: Any) -> Any:
        """Returns the observation without the velocities."""
        return observation[self._keep] if self._drop else np.where(self._keep, observation, 0).astype(observation.dtype)


@configurable
class ActionObservationWrapper(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Shows the previous action beside the observation: `{"observation": ..., "prev_action": ...}`, zeros at first.

    Args:
        env: the world to wrap.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)
        self._no_action = _zeros(env.action_space)
        parts = {"observation": env.observation_space, "prev_action": _with_zeros(env.action_space)}
        self.observation_space = spaces.Dict(parts)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Resets the world; the previous action is zero."""
        observation, info = self.env.reset(seed=seed, options=options)
        return {"observation": observation, "prev_action": self._no_action}, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Steps the world and adds the action."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return {"observation": observation, "prev_action": action}, reward, terminated, truncated, info


def _zeros(space: spaces.Space[Any]) -> Any:
    if isinstance(space, spaces.Dict):
        return {name: _zeros(child) for name, child in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_zeros(child) for child in space.spaces)
    return np.zeros(space.shape or (), space.dtype)


def _with_zeros(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """The space, made larger where 0 is not in it."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict({name: _with_zeros(child) for name, child in space.spaces.items()})
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([_with_zeros(child) for child in space.spaces])
    if isinstance(space, spaces.Discrete) and not space.contains(0):
        low, high = min(0, int(space.start)), max(0, int(space.start + space.n - 1))
        return spaces.Discrete(high - low + 1, start=low)
    if isinstance(space, spaces.Box):
        return spaces.Box(np.minimum(space.low, 0), np.maximum(space.high, 0), dtype=space.dtype)  # type: ignore[arg-type]
    return space


@configurable
class ActionMaskObservation(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Puts the mask of valid actions into the observation, wherever the world offers it.

    The observation becomes `{"observation": ..., "valid_action_mask": bool [n]}`, or gains the second entry if
    it is a Dict already. The mask is taken from the observation key `action_mask`, from
    `info["action_mask"]`, or from a method `action_masks()` of the world, in this order.

    Args:
        env: the world to wrap; its action space must be Discrete.
    """

    def __init__(self, env: gym.Env[Any, Any]) -> None:
        gym.utils.RecordConstructorArgs.__init__(self)
        gym.Wrapper.__init__(self, env)
        if not isinstance(env.action_space, spaces.Discrete):
            raise ValueError(f"Action masks need a Discrete action space; got {env.action_space}.")
        mask = spaces.Box(0, 1, (int(env.action_space.n),), np.bool_)  # type: ignore[arg-type]
        space = env.observation_space
        parts = dict(space.spaces) if isinstance(space, spaces.Dict) else {"observation": space}
        self._in_observation = "action_mask" in parts
        parts.pop("action_mask", None)
        self.observation_space = spaces.Dict({**parts, "valid_action_mask": mask})

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Resets the world and adds the mask."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._with_mask(observation, info), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Steps the world and adds the mask."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._with_mask(observation, info), reward, terminated, truncated, info

    def _with_mask(self, observation: Any, info: dict[str, Any]) -> dict[str, Any]:
        is_dict = isinstance(observation, dict)
        parts = dict(observation) if is_dict else {"observation": observation}
        mask = valid_actions(self.env, observation if self._in_observation else None, info)
        if mask is None:
            raise ValueError(
                f"{self.env} offers no mask: neither an observation or info entry 'action_mask' nor a "
                "method action_masks()."
            )
        parts.pop("action_mask", None)
        parts["valid_action_mask"] = mask
        return parts
