"""Worlds that step one after the other in this process."""

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from rein.compat.sb3.row import Row, attribute_of, is_wrapped, set_attribute
from rein.compat.sb3.vec_env import Indices, Observations, StepReturn, VecEnv, stacked


class DummyVecEnv(VecEnv):
    """A batch in this process."""

    can_wait = True

    def __init__(self, env_fns: Sequence[Callable[[], gym.Env[Any, Any]]]) -> None:
        """Makes the worlds.

        Args:
            env_fns: functions that each make one.
        """
        self.envs = [make() for make in env_fns]
        if len({id(env.unwrapped) for env in self.envs}) != len(self.envs):
            raise ValueError("two of the functions gave the same world: each must make a new one")
        super().__init__(len(self.envs), self.envs[0].observation_space, self.envs[0].action_space)
        self.metadata = self.envs[0].metadata
        self.render_mode = self.envs[0].render_mode
        self._worlds = [Row(env) for env in self.envs]
        self._actions: NDArray[Any] | None = None

    def reset(self) -> Observations:
        """See `VecEnv`."""
        self.calls += 1
        observations = [row.reset(**self._take_reset_arguments(i)) for i, row in enumerate(self._worlds)]
        self.reset_infos = [row.reset_info for row in self._worlds]
        return stacked(observations, self.observation_space)

    def step_async(self, actions: NDArray[Any]) -> None:
        """See `VecEnv`."""
        self._actions = actions

    def step_wait(self) -> StepReturn:
        """See `VecEnv`."""
        assert self._actions is not None
        self.calls += 1
        steps = [row.step(action, self._waiting) for row, action in zip(self._worlds, self._actions, strict=True)]
        self.reset_infos = [row.reset_info for row in self._worlds]
        observations, rewards, dones, infos = zip(*steps, strict=True)
        return (
            stacked(observations, self.observation_space),
            np.array(rewards, dtype=np.float32),
            np.array(dones, dtype=bool),
            list(infos),
        )

    def close(self) -> None:
        """See `VecEnv`."""
        for env in self.envs:
            env.close()

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """See `VecEnv`."""
        return [attribute_of(self.envs[row], attr_name) for row in self._rows(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """See `VecEnv`."""
        for row in self._rows(indices):
            set_attribute(self.envs[row], attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
    ) -> list[Any]:
        """See `VecEnv`."""
        return [attribute_of(self.envs[row], method_name)(*method_args, **method_kwargs) for row in self._rows(indices)]

    def env_is_wrapped(
        self, wrapper_class: type[gym.Wrapper[Any, Any, Any, Any]], indices: Indices = None
    ) -> list[bool]:
        """See `VecEnv`."""
        return [is_wrapped(self.envs[row], wrapper_class) for row in self._rows(indices)]
