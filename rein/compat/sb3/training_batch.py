"""A batch of Stable-Baselines3's kind as the Gymnasium vector environment that our training steps."""

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from rein.compat.sb3.vec_env import BEGINS, VecEnv, row_of


def policy_actions(space: spaces.Space[Any]) -> spaces.Space[Any]:
    """The space that a policy chooses from: bits are choices between two."""
    return spaces.MultiDiscrete(np.full(space.shape, 2)) if isinstance(space, spaces.MultiBinary) else space


def as_world_takes(actions: Any, space: spaces.Space[Any]) -> Any:
    """Actions of a policy in the type of the world."""
    return np.asarray(actions).astype(np.int8) if isinstance(space, spaces.MultiBinary) else actions


OnStep = Callable[[dict[str, Any]], None]


class TrainingBatch(VectorEnv[Any, Any, Any]):
    """Steps a batch and tells of each step; the batch belongs to who made it and is never closed.

    Attributes:
        venv: the batch.
        on_step: called after each step with `actions`, `new_obs`, `rewards`, `dones` and `infos`.
    """

    def __init__(self, venv: VecEnv, on_step: OnStep, seed: int | None) -> None:
        """Wraps.

        Args:
            venv: the batch.
            on_step: see above.
            seed: of the first world at the first reset; None leaves the seeds of the batch as they are.
        """
        self.on_step = on_step
        self._seed = seed
        self._calls = -1
        self._has_begun = False
        self.metadata = {
            "autoreset_mode": AutoresetMode.NEXT_STEP if venv.can_wait else AutoresetMode.SAME_STEP,
        }
        self.num_envs = venv.num_envs
        self.single_observation_space = venv.observation_space
        self.single_action_space = policy_actions(venv.action_space)
        self.observation_space = batch_space(venv.observation_space, venv.num_envs)
        self.action_space = batch_space(self.single_action_space, venv.num_envs)
        self.venv = venv

    @property
    def is_untouched(self) -> bool:
        """Whether nobody else has stepped or reset the batch since this did."""
        return self._calls == self.venv.calls

    def exchange(self, venv: VecEnv) -> None:
        """Puts another batch in the place of the present one."""
        self.venv = venv
        self._calls = -1

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begins episodes; the seed is that of the model, whatever is given here."""
        if self._seed is not None:
            self.venv.seed(self._seed)
            self._seed = None
        observations = self.venv.reset()
        self._calls = self.venv.calls
        if self._has_begun:  # In the place of a step.
            infos = [{BEGINS: True} for _ in range(self.num_envs)]
            self._tell(None, observations, np.zeros(self.num_envs, np.float32), np.zeros(self.num_envs, bool), infos)
        self._has_begun = True
        return observations, {}

    def _tell(self, actions: Any, new_obs: Any, rewards: Any, dones: Any, infos: Any) -> None:
        self.on_step({"actions": actions, "new_obs": new_obs, "rewards": rewards, "dones": dones, "infos": infos})

    def step(self, actions: Any) -> tuple[Any, NDArray[Any], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """One step of every world."""
        actions = as_world_takes(actions, self.venv.action_space)
        new_obs, rewards, dones, infos = self.venv.step(actions)
        self._calls = self.venv.calls
        self._tell(actions, new_obs, rewards, dones, infos)
        truncated = dones & np.array([bool(info.get("TimeLimit.truncated", False)) for info in infos])
        info: dict[str, Any] = {}
        if not self.venv.can_wait and dones.any():
            last = np.empty(self.num_envs, dtype=object)
            for row in range(self.num_envs):
                last[row] = infos[row]["terminal_observation"] if dones[row] else row_of(new_obs, row)
            info["final_obs"] = last
        return new_obs, rewards, dones & ~truncated, truncated, info

    def close(self, **kwargs: Any) -> None:
        """Leaves the batch open: it belongs to who made it."""
