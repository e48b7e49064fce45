"""Batches of worlds with the interface of Stable-Baselines3's vector environments: `reset` and `step` on arrays.

In that interface a step that ends an episode already shows the first observation of the next one, and the last observation
is in `infos[i]["terminal_observation"]`. While a model trains, batches that can do so (`can_wait`) show the last observation
first and begin the next episode with the next step instead, which is what our buffers store; see `waiting`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rein.runtime.seeding import draw_seed

Observations = Any
"""An array [B, ...], or a dict or tuple of them."""
StepReturn = tuple[Observations, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]
Indices = int | Iterable[int] | None

BEGINS = "episode_begins"
"""In the info of a row that only began an episode in this step, while a model trains."""


class VecEnv(ABC):
    """A batch of worlds that step together.

    Attributes:
        num_envs: how many, B.
        observation_space: of one world.
        action_space: of one world.
        render_mode: of the worlds.
        calls: resets and steps so far.
    """

    can_wait = False
    """Whether the batch can begin episodes with the step after the one that ends them."""

    def __init__(self, num_envs: int, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        """Keeps what every batch has.

        Args:
            num_envs: how many worlds.
            observation_space: of one world.
            action_space: of one world.
        """
        self.num_envs = num_envs
        self.observation_space = observation_space
        self.action_space = action_space
        self.metadata: dict[str, Any] = {"render_modes": []}
        self.render_mode: str | None = None
        self.reset_infos: list[dict[str, Any]] = [{} for _ in range(num_envs)]
        self.calls = 0
        self._waiting = False
        self._seeds: list[int | None] = [None] * num_envs
        self._options: list[dict[str, Any]] = [{} for _ in range(num_envs)]

    @property
    def waiting(self) -> bool:
        """Whether episodes begin with the step after the one that ended the last."""
        return self._waiting

    @waiting.setter
    def waiting(self, value: bool) -> None:
        self._waiting = value

    @abstractmethod
    def reset(self) -> Observations:
        """Begins an episode in every world; gives the observations, [B, ...]."""

    @abstractmethod
    def step_async(self, actions: NDArray[Any]) -> None:
        """Begins a step; `step_wait` ends it."""

    @abstractmethod
    def step_wait(self) -> StepReturn:
        """What came of the step: observations, rewards [B], ends [B], infos."""

    def step(self, actions: NDArray[Any]) -> StepReturn:
        """One step of every world.

        Args:
            actions: [B, ...].
        """
        self.step_async(actions)
        return self.step_wait()

    @abstractmethod
    def close(self) -> None:
        """Ends the worlds."""

    @abstractmethod
    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """An attribute of each world, or of those with the given numbers."""

    @abstractmethod
    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Sets an attribute of each world."""

    @abstractmethod
    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Calls a method of each world."""

    @abstractmethod
    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: Indices = None
    ) -> list[bool]:
        """Whether each world is wrapped in a class."""

    def has_attr(self, attr_name: str) -> bool:
        """Whether all worlds have an attribute."""
        try:
            self.get_attr(attr_name)
        except AttributeError:
            return False
        return True

    def seed(self, seed: int | None = None) -> list[int | None]:
        """Seeds the worlds from their next reset on; each gets the number after the one before.

        Args:
            seed: of the first world; None draws one.
        """
        first = draw_seed() if seed is None else seed
        self._seeds = [first + row for row in range(self.num_envs)]
        return list(self._seeds)

    def set_options(self, options: dict[str, Any] | list[dict[str, Any]] | None = None) -> None:
        """Gives options to the next reset: the same for all worlds, or a list."""
        given = options or {}
        self._options = list(given) if isinstance(given, list) else [dict(given) for _ in range(self.num_envs)]

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """A frame of each world."""
        return self.env_method("render")

    def render(self, mode: str | None = None) -> NDArray[np.uint8] | None:
        """All worlds in one picture, [H, W, 3]; or in a window, if they were made so."""
        if self.render_mode == "human":
            self.env_method("render")
            return None
        frames = [frame for frame in self.get_images() if frame is not None]
        if not frames:
            raise ValueError('the worlds give no frames: make them with render_mode="rgb_array"')
        columns = int(np.ceil(len(frames) ** 0.5))
        rows = -(-len(frames) // columns)
        frames += [np.zeros_like(frames[0])] * (rows * columns - len(frames))
        lines = [np.concatenate(frames[row * columns : (row + 1) * columns], axis=1) for row in range(rows)]
        return np.concatenate(lines, axis=0)

    @property
    def unwrapped(self) -> "VecEnv":
        """The batch below all wrappers."""
        return self

    def _take_reset_arguments(self, row: int) -> dict[str, Any]:
        """Seed and options for a reset of one world, which hold for that reset only."""
        seed, options = self._seeds[row], self._options[row]
        self._seeds[row], self._options[row] = None, {}
        return {"seed": seed, **({"options": options} if options else {})}

    def _rows(self, indices: Indices) -> list[int]:
        if indices is None:
            return list(range(self.num_envs))
        return [indices] if isinstance(indices, int) else list(indices)


class VecEnvWrapper(VecEnv):
    """A batch that changes what another one shows; subclasses override `reset` and `step_wait`."""

    def __init__(
        self,
        venv: VecEnv,
        observation_space: spaces.Space[Any] | None = None,
        action_space: spaces.Space[Any] | None = None,
    ) -> None:
        """Wraps.

        Args:
            venv: what is wrapped.
            observation_space: None is that of `venv`.
            action_space: None is that of `venv`.
        """
        self.venv = venv
        super().__init__(venv.num_envs, observation_space or venv.observation_space, action_space or venv.action_space)
        self.metadata = venv.metadata
        self.render_mode = venv.render_mode
        self.reset_infos = venv.reset_infos

    @property
    def can_wait(self) -> bool:  # type: ignore[override]
        """Whether the wrapped batch can."""
        return self.venv.can_wait

    @property
    def waiting(self) -> bool:
        """See `VecEnv`."""
        return self.venv.waiting

    @waiting.setter
    def waiting(self, value: bool) -> None:
        if hasattr(self, "venv"):
            self.venv.waiting = value

    @property
    def calls(self) -> int:  # type: ignore[override]
        """Resets and steps of the batch below all wrappers."""
        return self.venv.calls

    @calls.setter
    def calls(self, value: int) -> None:
        """Belongs to the batch below."""

    def step_async(self, actions: NDArray[Any]) -> None:
        """Passes the actions on."""
        self.venv.step_async(actions)

    def close(self) -> None:
        """Ends the worlds."""
        self.venv.close()

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """See `VecEnv`."""
        return self.venv.get_attr(attr_name, indices)

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """See `VecEnv`."""
        self.venv.set_attr(attr_name, value, indices)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
    ) -> list[Any]:
        """See `VecEnv`."""
        return self.venv.env_method(method_name, *method_args, indices=indices, **method_kwargs)

    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: Indices = None
    ) -> list[bool]:
        """See `VecEnv`."""
        return self.venv.env_is_wrapped(wrapper_class, indices)

    def seed(self, seed: int | None = None) -> list[int | None]:
        """See `VecEnv`."""
        return self.venv.seed(seed)

    def set_options(self, options: dict[str, Any] | list[dict[str, Any]] | None = None) -> None:
        """See `VecEnv`."""
        self.venv.set_options(options)

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        """See `VecEnv`."""
        return self.venv.get_images()

    @property
    def unwrapped(self) -> VecEnv:
        """The batch below all wrappers."""
        return self.venv.unwrapped

    def __getattr__(self, name: str) -> Any:
        if name == "venv":
            raise AttributeError(name)
        return getattr(self.venv, name)


def unwrap_vec_wrapper(env: VecEnv, vec_wrapper_class: type[VecEnvWrapper]) -> Any:
    """The wrapper of a class around a batch; None if there is none."""
    inner: VecEnv = env
    while isinstance(inner, VecEnvWrapper):
        if isinstance(inner, vec_wrapper_class):
            return inner
        inner = inner.venv
    return None


def is_vecenv_wrapped(env: VecEnv, vec_wrapper_class: type[VecEnvWrapper]) -> bool:
    """Whether a batch is wrapped in a class."""
    return unwrap_vec_wrapper(env, vec_wrapper_class) is not None


def stacked(observations: Sequence[Any], space: spaces.Space[Any]) -> Observations:
    """The observations of all worlds in arrays [B, ...], in the structure of their space."""
    if isinstance(space, spaces.Dict):
        return {key: stacked([one[key] for one in observations], part) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(stacked([one[i] for one in observations], part) for i, part in enumerate(space.spaces))
    return np.stack([np.asarray(one, dtype=space.dtype) for one in observations])


def row_of(observations: Observations, row: int) -> Any:
    """The observation of one world."""
    if isinstance(observations, dict):
        return {key: row_of(part, row) for key, part in observations.items()}
    if isinstance(observations, tuple):
        return tuple(row_of(part, row) for part in observations)
    return observations[row]
