"""Worlds that Gymnasium already steps as a batch: native vector entry points and any other `VectorEnv`.

Gymnasium knows three ways to begin the next episode, and a batch here knows one: LAST first, then FIRST on the next step,
whose action is ignored. What each way needs:

- NEXT_STEP does the same; only the flags are translated.
- DISABLED leaves resetting to the caller, who can reset some rows but must step all. So on the step after LAST the
  ended rows are reset (a `VectorEnv` refuses to step ended rows), stepped once with the others, and reset again. What the
  step between the resets gave is thrown away, so no row ever shows a state that its policy did not act upon.
- SAME_STEP returns the first observation of the next episode together with the end of the last one, and steps all rows
  again at the next call, before a policy could answer that first observation. Where single rows can be reset, the extra
  step is undone by resetting the row again, as above. Where they cannot, the observation *after* the extra step is shown
  as FIRST: every recorded transition is still true, but each episode starts one step late, and the reward of that step
  is lost.
"""

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv
from numpy.typing import NDArray

from rein.envs.batch import batch_seeds
from rein.envs.environment import BufferedEnvironment, stacked_frames
from rein.envs.faults import EnvironmentFaultError, Fault, FaultPolicy
from rein.envs.leaves import action_builder, reader
from rein.envs.shared_block import FIRST, LAST, MID, BatchSpaces, Slot

__all__ = ["VectorEnvironment"]

logger = logging.getLogger("rein.envs")


class StepFlags:
    """Translates the ends of episodes, as a next-step-resetting batch reports them, into step types and discounts."""

    def __init__(self, batch_size: int, num_slots: int) -> None:
        self.ended: NDArray[np.bool_] = np.zeros(batch_size, dtype=np.bool_)
        """[B] rows whose current step is LAST."""
        self._any_ended = False
        self.begin_anew = False
        """Whether all rows are cut, so that the next step must reset the whole batch."""
        self._plain = [False] * num_slots  # Whether a slot holds nothing but MID steps.

    def restart(self, slot: Slot, index: int) -> None:
        """Makes all rows FIRST."""
        slot.step_type[:] = FIRST
        slot.discount[:] = 1.0
        slot.reward[:] = 0.0
        for array in slot.action:
            array[...] = 0
        self.ended = np.zeros_like(self.ended)
        self._any_ended = False
        self.begin_anew = False
        self._plain[index] = False

    def cut_all(self, slot: Slot, index: int, reason: str) -> dict[int, str]:
        """Makes all rows LAST, since a batch that is reset as a whole can only begin anew together.

        Returns:
            `reason` for each row that was not LAST anyway.
        """
        cut = np.flatnonzero(slot.step_type != LAST)
        slot.step_type[cut] = LAST
        slot.discount[cut] = 1.0
        self.begin_anew = True
        self._plain[index] = False
        return {int(row): reason for row in cut}

    def advance(self, slot: Slot, index: int, terminated: NDArray[np.bool_], truncated: NDArray[np.bool_]) -> None:
        """Fills in step types and discounts, and what FIRST rows must show.

        Rows that were LAST become FIRST, whatever is said of their end.
        """
        ended = np.logical_or(terminated, truncated)
        if not self._plain[index]:
            slot.step_type[:] = MID
            slot.discount[:] = 1.0
            self._plain[index] = True
        if self._any_ended:
            first = self.ended
            ended &= ~first
            slot.step_type[first] = FIRST
            slot.reward[first] = 0.0
            for array in slot.action:
                array[first] = 0
            self._plain[index] = False
        any_ended = bool(ended.any())
        if any_ended:
            slot.step_type[ended] = LAST
            slot.discount[ended & terminated] = 0.0
            self._plain[index] = False
        self.ended = ended
        self._any_ended = any_ended


class VectorEnvironment(BufferedEnvironment):
    """A Gymnasium `VectorEnv` as an `Environment`, whatever its autoreset mode.

    The worlds of a `VectorEnv` cannot be made anew one by one, so any fault ends the run with an `EnvironmentFaultError`.
    """

    def __init__(
        self,
        vector_env: VectorEnv[Any, Any, Any],
        seed: int | None = None,
        num_slots: int = 2,
        fault_policy: FaultPolicy | None = None,
        partial_reset: bool | None = None,
    ) -> None:
        """Wraps `vector_env`, which this environment then owns and closes.

        Args:
            vector_env: any vector environment.
            seed: of the whole batch; None for a random one.
            num_slots: number of buffers that steps alternate between.
            fault_policy: only kept for reporting.
            partial_reset: whether ``reset(options={"reset_mask": ...})`` resets just the rows of the mask; None to
                assume so for Gymnasium's own sync and async vector environments and for all of mode DISABLED.
        """
        self._closed = True
        self._env = vector_env
        spaces = BatchSpaces(
            vector_env.single_observation_space,
            vector_env.single_action_space,
            reward_dim=_reward_dim(vector_env),
            env_info=getattr(vector_env, "env_info_space", None),
        )
        super().__init__(spaces, vector_env.num_envs, num_slots=num_slots, fault_policy=fault_policy)
        per_row = isinstance(vector_env.unwrapped, SyncVectorEnv | AsyncVectorEnv)
        self._seed_per_row = per_row
        self._mode = autoreset_mode(vector_env)
        self._partial_reset = per_row if partial_reset is None else partial_reset
        if self._mode == AutoresetMode.SAME_STEP and not self._partial_reset:
            logger.warning(
                "%s resets in the step that ends an episode and cannot reset single rows: each episode is shown without "
                "its first step.",
                vector_env,
            )
        self._ticks = 0
        self._pending_seed: list[int] | None = batch_seeds(seed, self._batch_size)
        self._flags = StepFlags(self._batch_size, num_slots)
        self._observation_readers = [reader(leaf.keys) for leaf in self._layout.observation]
        self._info_readers = [reader(leaf.keys) for leaf in self._layout.env_info]
        self._build_action = action_builder(spaces.action)
        self._advance: Callable[[Any], tuple[Any, Any, Any, Any, Any]] = {
            AutoresetMode.NEXT_STEP: self._advance_next_step,
            AutoresetMode.SAME_STEP: self._advance_same_step,
            AutoresetMode.DISABLED: self._advance_disabled,
        }[self._mode]

    def _reset_into(self, index: int) -> None:
        slot = self._slots[index]
        observation, info = self._env.reset(seed=self._reset_seed())
        self._write_observation(slot, observation)
        self._write_info(slot, info)
        self._flags.restart(slot, index)
        self._require_no_nan(slot)

    def _reset_seed(self) -> Any:
        seeds, self._pending_seed = self._pending_seed, None
        if seeds is None:
            return None
        # Native environments often add the row to the seed and keep the sum in 32 signed bits.
        return seeds if self._seed_per_row else seeds[0] & 0x3FFFFFFF

    def _step_into(self, index: int) -> None:
        self._ticks += 1
        if self._flags.begin_anew:
            self._reset_into(index)
            return
        slot = self._slots[index]
        action = self._build_action([array.copy() for array in slot.action], slice(None))  # type: ignore[arg-type]
        try:
            observation, reward, terminated, truncated, info = self._advance(action)
        except Exception as error:
            message = f"{type(error).__name__}: {error} (in a vector environment, so any row may be meant)"
            raise EnvironmentFaultError(Fault(0, self._ticks, "raised", message)) from error
        self._write_observation(slot, observation)
        slot.reward[...] = reward
        if self._layout.env_info:
            self._write_info(slot, info)
        self._flags.advance(slot, index, terminated, truncated)
        self._require_no_nan(slot)

    # The three autoreset modes -----------------------------------------------------------------------------------

    def _advance_next_step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        return self._env.step(action)

    def _advance_disabled(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        ended = self._flags.ended
        if not ended.any():
            return self._env.step(action)
        self._env.reset(options={"reset_mask": ended.copy()})
        _, reward, terminated, truncated, info = self._env.step(action)
        observation, _ = self._env.reset(options={"reset_mask": ended.copy()})
        return observation, reward, terminated, truncated, info

    def _advance_same_step(self, action: Any) -> tuple[Any, Any, Any, Any, Any]:
        ended = self._flags.ended
        observation, reward, terminated, truncated, info = self._env.step(action)
        if self._partial_reset and ended.any():
            observation, _ = self._env.reset(options={"reset_mask": ended.copy()})
        now_ended = np.logical_or(terminated, truncated) & ~ended
        if now_ended.any():
            observation = self._with_final(observation, info, np.flatnonzero(now_ended))
        return observation, reward, terminated, truncated, info

    def _with_final(self, observation: Any, info: dict[str, Any], rows: NDArray[np.intp]) -> Any:
        """The observations as leaf arrays, with those of ended rows replaced by the ones that ended them."""
        if "final_obs" not in info:
            raise ValueError("a SAME_STEP vector environment must give info['final_obs'] when an episode ends")
        final = info["final_obs"]
        by_row = isinstance(final, np.ndarray) and final.dtype == object
        arrays = []
        for read in self._observation_readers:
            array = np.array(read(observation))
            for row in rows:
                array[row] = read(final[row]) if by_row else read(final)[row]
            arrays.append(array)
        return _Leaves(arrays)

    # Reading and writing -----------------------------------------------------------------------------------------

    def _write_observation(self, slot: Slot, observation: Any) -> None:
        if isinstance(observation, _Leaves):
            values = observation.arrays
        else:
            values = [read(observation) for read in self._observation_readers]
        for array, value in zip(slot.observation, values, strict=True):
            if value.shape != array.shape:
                message = f"observation has shape {value.shape}; its space says {array.shape}"
                raise EnvironmentFaultError(Fault(0, self._ticks, "invalid", message))
            array[...] = value

    def _write_info(self, slot: Slot, info: dict[str, Any]) -> None:
        for read, array in zip(self._info_readers, slot.env_info, strict=True):
            try:
                array[...] = read(info)
            except KeyError:
                array[...] = 0

    def _require_no_nan(self, slot: Slot) -> None:
        for array in (slot.reward, *slot.observation):
            if array.dtype.kind != "f":
                continue
            flat = array.reshape(-1)
            if not np.isfinite(flat.dot(flat)):
                bad = np.flatnonzero(np.isnan(array).reshape(self._batch_size, -1).any(axis=1))
                if len(bad):
                    raise EnvironmentFaultError(
                        Fault(int(bad[0]), self._ticks, "invalid", "observation or reward is NaN")
                    )

    # The rest ----------------------------------------------------------------------------------------------------

    def _set_worlds(self, worlds: Any) -> dict[int, str]:
        del worlds  # None were saved.
        return self._cut_worlds("a native vector environment cannot save its worlds")

    def _cut_worlds(self, reason: str) -> dict[int, str]:
        return self._flags.cut_all(self._slots[self._index], self._index, reason)

    def seed(self, seed: int) -> None:
        """Seeds the worlds from their next `reset()` on."""
        self._pending_seed = batch_seeds(seed, self._batch_size)

    def render(self) -> NDArray[np.uint8]:
        """One frame of each world, [B, H, W, 3]."""
        frames: Any = self._env.render()
        return stacked_frames(list(frames) if frames is not None else [], "the vector environment")

    def _close(self) -> None:
        self._env.close()


class _Leaves:
    """Observations that are already taken apart."""

    def __init__(self, arrays: list[NDArray]) -> None:
        self.arrays = arrays


def _reward_dim(vector_env: VectorEnv[Any, Any, Any]) -> int | None:
    space = getattr(vector_env, "reward_space", None)
    return None if space is None or space.shape == () else int(space.shape[-1])


def autoreset_mode(vector_env: VectorEnv[Any, Any, Any]) -> AutoresetMode:
    """How `vector_env` begins the next episode; says so in an error where it does not tell."""
    mode = vector_env.metadata.get("autoreset_mode")
    if mode is None:
        raise ValueError(
            f"{vector_env} does not say how it resets: set metadata['autoreset_mode'] to a gymnasium AutoresetMode"
        )
    return mode if isinstance(mode, AutoresetMode) else AutoresetMode(mode)


def native_vector_env(env_name: str, num_envs: int, **kwargs: Any) -> VectorEnv[Any, Any, Any] | None:
    """The registered native vector environment of a Gymnasium id; None if it has none."""
    import gymnasium as gym

    from rein.envs import suites

    suites.suite_of(env_name).list_ids()  # Registers the ids of suites that do so only when asked.
    try:
        spec = gym.spec(env_name)
    except gym.error.Error:
        return None
    if spec.vector_entry_point is None:
        return None
    return gym.make_vec(env_name, num_envs=num_envs, vectorization_mode="vector_entry_point", **kwargs)
