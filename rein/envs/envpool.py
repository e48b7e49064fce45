"""Worlds of the EnvPool library, which steps whole batches in C++ threads.

EnvPool has its own ids and its own random numbers: its trajectories differ from Gymnasium's under the same seed. It is
used where asked for by name.
"""

import difflib
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rein.envs.environment import BufferedEnvironment
from rein.envs.faults import EnvironmentFaultError, Fault, FaultPolicy
from rein.envs.leaves import action_builder, reader
from rein.envs.shared_block import BatchSpaces, Slot
from rein.envs.vector import StepFlags

__all__ = ["EnvPoolEnvironment"]


def import_envpool() -> Any:
    """The `envpool` module; an error that names the extra if it is missing."""
    try:
        import envpool
    except ImportError as error:
        raise ImportError("EnvPool is not installed: pip install 'rein-rl[envpool]'") from error
    return envpool


def has_envpool_id(env_name: str) -> bool:
    """Whether EnvPool is installed and knows `env_name`."""
    try:
        return env_name in import_envpool().list_all_envs()
    except ImportError:
        return False


class _DirectStep:
    """Steps a pool without the dictionaries that its Python layer builds, which cost as much as some worlds."""

    def __init__(self, pool: Any, env_ids: NDArray[np.int32], places: list[int]) -> None:
        self._send, self._recv = pool._send, pool._recv
        self._env_ids = env_ids
        self._observation, self._reward, self._done, self._truncated = places

    @classmethod
    def for_pool(cls, pool: Any, batch_size: int) -> "_DirectStep | None":
        """A direct step where the pool has one observation, one action and one player; None otherwise."""
        state_keys = list(getattr(pool, "_state_keys", ()))
        action_keys = list(getattr(pool, "_action_keys", ()))
        observations = [key for key in state_keys if key.split(":")[0] == "obs"]
        known = hasattr(pool, "_send") and hasattr(pool, "_recv") and {"reward", "done", "trunc"} <= set(state_keys)
        simple = len(observations) == 1 and action_keys[:2] == ["env_id", "players.env_id"] and len(action_keys) == 3
        if not known or not simple or not isinstance(pool.observation_space, spaces.Box):
            return None
        if pool.config.get("max_num_players", 1) != 1:
            return None
        places = [state_keys.index(key) for key in (observations[0], "reward", "done", "trunc")]
        return cls(pool, np.arange(batch_size, dtype=np.int32), places)

    def step(self, action: NDArray) -> tuple[NDArray, NDArray, NDArray, NDArray]:
        """Observation, reward, terminated and truncated of all worlds."""
        self._send([self._env_ids, self._env_ids, action])
        state = self._recv()
        truncated = state[self._truncated]
        return state[self._observation], state[self._reward], state[self._done] & ~truncated, truncated


class EnvPoolEnvironment(BufferedEnvironment):
    """B worlds of EnvPool.

    EnvPool takes its seed when it is made and cannot save or restore worlds, so `seed` makes the pool anew. A fault ends
    the run with an `EnvironmentFaultError`, since the worlds cannot be made anew one by one.
    """

    def __init__(
        self,
        env_name: str,
        batch_size: int,
        seed: int | None = None,
        num_slots: int = 2,
        fault_policy: FaultPolicy | None = None,
        **kwargs: Any,
    ) -> None:
        """Makes the pool.

        Args:
            env_name: an id of EnvPool.
            batch_size: number of worlds.
            seed: of the pool; None for a random one.
            num_slots: number of buffers that steps alternate between.
            fault_policy: only kept for reporting.
            **kwargs: passed to `envpool.make`, for instance `num_threads`, `stack_num` or `max_episode_steps`.
        """
        self._closed = True
        self._env_name = env_name
        self._kwargs = kwargs
        self._pool_size = batch_size
        self._env = self._make(seed)
        pool_spaces = BatchSpaces(self._env.observation_space, self._env.action_space)
        super().__init__(pool_spaces, batch_size, num_slots=num_slots, fault_policy=fault_policy)
        self._ticks = 0
        self._flags = StepFlags(batch_size, num_slots)
        self._readers = [reader(leaf.keys) for leaf in self._layout.observation]
        self._action_dtypes = [leaf.space_dtype for leaf in self._layout.action]
        self._build_action = action_builder(pool_spaces.action)
        if isinstance(pool_spaces.action, spaces.Discrete):
            self._action_dtypes = [np.dtype(np.int32)]
        self._direct = _DirectStep.for_pool(self._env, batch_size)

    def _make(self, seed: int | None) -> Any:
        envpool = import_envpool()
        known = envpool.list_all_envs()
        if self._env_name not in known:
            near = difflib.get_close_matches(self._env_name, known)
            raise ValueError(f"EnvPool has no environment {self._env_name!r}; similar ids: {near}")
        if seed is None:
            seed = int(np.random.SeedSequence().generate_state(1)[0])
        small = int(np.random.SeedSequence(seed).generate_state(1)[0]) & 0x7FFFFFFF
        return envpool.make(self._env_name, env_type="gymnasium", num_envs=self._pool_size, seed=small, **self._kwargs)

    def _reset_into(self, index: int) -> None:
        slot = self._slots[index]
        observation, _ = self._env.reset()
        self._write_observation(slot, observation)
        self._flags.restart(slot, index)

    def _step_into(self, index: int) -> None:
        self._ticks += 1
        if self._flags.begin_anew:
            self._reset_into(index)
            return
        slot = self._slots[index]
        arrays = [array.astype(dtype) for array, dtype in zip(slot.action, self._action_dtypes, strict=True)]
        if self._direct is not None:
            observation, reward, terminated, truncated = self._direct.step(arrays[0])
            slot.observation[0][...] = observation
        else:
            action = self._build_action(arrays, slice(None))  # type: ignore[arg-type]
            observation, reward, terminated, truncated, _ = self._env.step(action)
            self._write_observation(slot, observation)
        slot.reward[...] = reward
        self._flags.advance(slot, index, terminated, truncated)
        self._require_no_nan(slot)

    def _write_observation(self, slot: Slot, observation: Any) -> None:
        for array, read in zip(slot.observation, self._readers, strict=True):
            array[...] = read(observation)

    def _require_no_nan(self, slot: Slot) -> None:
        for array in (slot.reward, *slot.observation):
            if array.dtype.kind == "f":
                flat = array.reshape(-1)
                square = flat.dot(flat)
                if square != square:
                    rows = np.isnan(array).reshape(self._batch_size, -1).any(axis=1)
                    row = int(np.flatnonzero(rows)[0])
                    raise EnvironmentFaultError(Fault(row, self._ticks, "invalid", "observation or reward is NaN"))

    def _set_worlds(self, worlds: Any) -> dict[int, str]:
        del worlds  # None were saved.
        return self._cut_worlds("EnvPool cannot save its worlds")

    def _cut_worlds(self, reason: str) -> dict[int, str]:
        return self._flags.cut_all(self._slots[self._index], self._index, reason)

    def seed(self, seed: int) -> None:
        """Makes the pool anew with another seed; call `reset()` afterwards."""
        self._env.close()
        self._env = self._make(seed)
        self._direct = _DirectStep.for_pool(self._env, self._batch_size)
        self._started = False

    def render(self) -> NDArray[np.uint8]:
        """Not offered by EnvPool."""
        raise NotImplementedError("EnvPool renders nothing here: create the environment with backend='sync' to render")

    def _close(self) -> None:
        if hasattr(self, "_env"):
            self._env.close()
