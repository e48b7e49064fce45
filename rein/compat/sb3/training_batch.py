"""A batch of Stable-Baselines3's kind as the Gymnasium vector environment that our training steps."""

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from rein.compat.sb3.vec_env import VecEnv, row_of

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
        self.metadata = {
            "autoreset_mode": AutoresetMode.NEXT_STEP if venv.can_wait else AutoresetMode.SAME_STEP,
        }
        self.num_envs = venv.num_envs
        self.single_observation_space = venv.observation_space
        self.single_action_space = venv.action_space
        self.observation_space = batch_space(venv.observation_space, venv.num_envs)
        self.action_space = batch_space(venv.action_space, venv.num_envs)
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
        return observations, {}

    def step(self, actions: Any) -> tuple[Any, NDArray[Any], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """One step of every world."""
        new_obs, rewards, dones, infos = self.venv.step(actions)
        self._calls = self.venv.calls
        self.on_step({"actions": actions, "new_obs": new_obs, "rewards": rewards, "dones": dones, "infos": infos})
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
