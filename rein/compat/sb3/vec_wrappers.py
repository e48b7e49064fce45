"""Smaller wrappers of batches."""

import warnings
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rein.compat.sb3.vec_env import BEGINS, Observations, StepReturn, VecEnv, VecEnvWrapper


def is_image(space: spaces.Space[Any]) -> bool:
    """Whether observations are images of bytes, with the channels first or last."""
    return isinstance(space, spaces.Box) and len(space.shape) == 3 and space.dtype == np.uint8


def has_channels_last(space: spaces.Space[Any]) -> bool:
    """Whether they are images with the channels last."""
    return is_image(space) and int(np.argmin(space.shape)) == 2  # type: ignore[arg-type]


class _ObservationWrapper(VecEnvWrapper):
    """Changes observations, each by itself."""

    def changed(self, observations: Observations) -> Observations:
        """Observations, [B, ...] or of one world, as they are to be shown."""
        raise NotImplementedError

    def reset(self) -> Observations:
        """Begins episodes."""
        return self.changed(self.venv.reset())

    def step_wait(self) -> StepReturn:
        """See `VecEnv`."""
        observations, rewards, dones, infos = self.venv.step_wait()
        for info in infos:
            if "terminal_observation" in info:
                info["terminal_observation"] = self.changed(info["terminal_observation"])
        return self.changed(observations), rewards, dones, infos


class VecTransposeImage(_ObservationWrapper):
    """Images with the channels first, also those in dicts."""

    def __init__(self, venv: VecEnv, skip: bool = False) -> None:
        """Wraps.

        Args:
            venv: the batch.
            skip: True changes nothing.
        """
        self.skip = skip
        super().__init__(venv, venv.observation_space if skip else transposed_space(venv.observation_space))
        self._inner_space = venv.observation_space

    def changed(self, observations: Observations) -> Observations:
        """Observations with the channels first."""
        return observations if self.skip else transposed(observations, self._inner_space)


def transposed_space(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """The space in which images have their channels first."""
    if isinstance(space, spaces.Dict):
        return spaces.Dict({key: transposed_space(part) for key, part in space.spaces.items()})
    if has_channels_last(space):
        assert isinstance(space, spaces.Box)
        return spaces.Box(space.low.transpose(2, 0, 1), space.high.transpose(2, 0, 1), dtype=np.uint8)
    return space


def transposed(observations: Observations, space: spaces.Space[Any]) -> Observations:
    """Observations in which images have their channels first.

    Args:
        observations: [..., H, W, C], or a dict with such parts; those with the channels first already stay.
        space: that with the channels last.
    """
    if isinstance(space, spaces.Dict):
        return {key: transposed(observations[key], part) for key, part in space.spaces.items()}
    array = np.asarray(observations)
    if has_channels_last(space) and array.shape[-3:] == space.shape:
        return np.moveaxis(array, -1, -3)
    return observations


class VecExtractDictObs(_ObservationWrapper):
    """One part of observations that are dicts."""

    def __init__(self, venv: VecEnv, key: str) -> None:
        """Wraps.

        Args:
            venv: the batch.
            key: of the part.
        """
        self.key = key
        super().__init__(venv, venv.observation_space[key])  # type: ignore[index]

    def changed(self, observations: Observations) -> Observations:
        """The part."""
        return observations[self.key]


class VecFrameStack(VecEnvWrapper):
    """The last observations of each world stacked; zeros before the first of an episode."""

    def __init__(self, venv: VecEnv, n_stack: int, channels_order: str | None = None) -> None:
        """Wraps.

        Args:
            venv: the batch, with boxes as observations.
            n_stack: how many are stacked.
            channels_order: "first" or "last": the dimension that grows; None finds the channels of images, and is "last"
                for other boxes.
        """
        space = venv.observation_space
        if not isinstance(space, spaces.Box):
            raise ValueError(f"VecFrameStack works on boxes, not on {space}")
        if channels_order not in (None, "first", "last"):
            raise ValueError(f'VecFrameStack: channels_order is {channels_order!r}: give "first", "last" or None')
        first = channels_order == "first" or (
            channels_order is None and is_image(space) and not has_channels_last(space)
        )
        self._axis = -len(space.shape) if first else -1
        self.n_stack = n_stack
        super().__init__(
            venv,
            spaces.Box(self._repeated(space.low), self._repeated(space.high), dtype=space.dtype),  # type: ignore[arg-type]
        )
        self._size = space.shape[self._axis]
        self._stack = np.zeros((self.num_envs, *self.observation_space.shape), space.dtype)  # type: ignore[misc]

    def _repeated(self, bound: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([bound] * self.n_stack, axis=self._axis)

    def reset(self) -> Observations:
        """Begins episodes."""
        self._stack[:] = 0
        return self._push(self.venv.reset())

    def step_wait(self) -> StepReturn:
        """See `VecEnv`."""
        observations, rewards, dones, infos = self.venv.step_wait()
        for row in range(self.num_envs):
            if dones[row]:
                last = np.roll(self._stack[row], -self._size, axis=self._axis)
                _newest(last, self._axis, self._size)[...] = infos[row]["terminal_observation"]
                infos[row]["terminal_observation"] = last
            if BEGINS in infos[row] or (dones[row] and not self.waiting):
                self._stack[row] = 0
        return self._push(observations), rewards, dones, infos

    def _push(self, observations: NDArray[Any]) -> NDArray[Any]:
        self._stack = np.roll(self._stack, -self._size, axis=self._axis)
        _newest(self._stack, self._axis, self._size)[...] = observations
        return self._stack.copy()


def _newest(stack: NDArray[Any], axis: int, size: int) -> NDArray[Any]:
    """A view of the newest part of a stack."""
    at: list[Any] = [slice(None)] * stack.ndim
    at[axis] = slice(-size, None)
    return stack[tuple(at)]


class VecCheckNan(VecEnvWrapper):
    """Warns of, or refuses, numbers that are not finite."""

    def __init__(
        self, venv: VecEnv, raise_exception: bool = False, warn_once: bool = True, check_inf: bool = True
    ) -> None:
        """Wraps.

        Args:
            venv: the batch.
            raise_exception: refuse instead of warning.
            warn_once: warn of the first only.
            check_inf: count infinities too.
        """
        super().__init__(venv)
        self.raise_exception, self.warn_once, self.check_inf = raise_exception, warn_once, check_inf
        self._has_warned = False

    def reset(self) -> Observations:
        """Begins episodes."""
        observations = self.venv.reset()
        self._check(observations=observations)
        return observations

    def step_async(self, actions: NDArray[Any]) -> None:
        """Looks at the actions, too."""
        self._check(actions=actions)
        super().step_async(actions)

    def step_wait(self) -> StepReturn:
        """See `VecEnv`."""
        observations, rewards, dones, infos = self.venv.step_wait()
        self._check(observations=observations, rewards=rewards)
        return observations, rewards, dones, infos

    def _check(self, **named: Any) -> None:
        for name, value in named.items():
            parts = value.values() if isinstance(value, dict) else [value]
            bad = any((~np.isfinite(part) if self.check_inf else np.isnan(part)).any() for part in parts)
            if not bad or (self._has_warned and self.warn_once):
                continue
            self._has_warned = True
            if self.raise_exception:
                raise ValueError(f"{name} are not all finite")
            warnings.warn(f"{name} are not all finite", UserWarning, stacklevel=3)
