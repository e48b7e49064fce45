"""Several single worlds that fill some rows of a batch.

This is the inner loop of the in-process, thread and process backends alike: it steps the worlds, writes what they return
into the rows of a slot, resets each on the step after its episode ended, checks what comes back, and makes a world anew
when it fails.
"""

import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rein.envs.faults import Fault, FaultLog
from rein.envs.leaves import InvalidReturnError, LeafWriter, action_builder, reader
from rein.envs.returns import Bounds, checked_flag, checked_reward, describe_result, shown
from rein.envs.shared_block import FIRST, LAST, MID, BatchSpaces, BlockLayout, Slot
from rein.envs.single import EnvFactory, close_quietly, row_seed
from rein.envs.state import NotResumableError, capture, restore

__all__ = ["EnvRows"]

_TRACEBACK_CHARACTERS = 1500


class EnvRows:
    """Worlds number `first_row` onwards of a batch."""

    def __init__(
        self,
        factory: EnvFactory,
        batch_spaces: BatchSpaces,
        layout: BlockLayout,
        slots: Sequence[Slot],
        first_row: int,
        seeds: Sequence[int],
        log: FaultLog,
        progress: NDArray[np.int64] | None = None,
    ) -> None:
        """Makes the worlds; they are reset when the batch is.

        Args:
            factory: makes one world.
            batch_spaces: what each world must take and give.
            layout: layout of the block of the whole batch.
            slots: slots of the block, reduced to the rows of these worlds.
            first_row: index of the first world in the batch.
            seeds: one for each world, used at its first reset.
            log: told about faults; raises where there are too many.
            progress: array [1] that always holds the row being stepped, so that another process can tell which hangs.
        """
        self._factory = factory
        self._plain_action = not isinstance(batch_spaces.action, spaces.Dict | spaces.Tuple) and (
            isinstance(batch_spaces.action, spaces.Discrete) or batch_spaces.action.shape != ()
        )
        self._slots = list(slots)
        self.first_row = first_row
        self._log = log
        self._progress = np.zeros(1, dtype=np.int64) if progress is None else progress
        self._count = len(slots[0].reward)
        self._seeds: list[int | None] = list(seeds)
        self._base_seeds = list(seeds)
        self._restarts = [0] * self._count
        self._needs_reset = [True] * self._count
        self._episode_start = [0] * self._count
        self._not_mid: list[list[int]] = [list(range(self._count)) for _ in slots]
        self._current = 0
        self.ticks = 0
        """Batched steps so far."""
        self._writers = [LeafWriter(leaf, "observation") for leaf in layout.observation]
        self._bounds = [
            Bounds(leaf, position, writer.what, log.policy.out_of_bounds)
            for position, (leaf, writer) in enumerate(zip(layout.observation, self._writers, strict=True))
            if leaf.low is not None
        ]
        self._info_leaves = layout.env_info
        self._info_readers = [reader(leaf.keys) for leaf in layout.env_info]
        self._action_dtypes = [leaf.space_dtype for leaf in layout.action]
        self._build_action = action_builder(batch_spaces.action)
        self._reward_shape = () if batch_spaces.reward_dim is None else (batch_spaces.reward_dim,)
        self._floats = [self._float_views(slot) for slot in slots]
        self._only_leaf = layout.observation[0] if len(layout.observation) == 1 else None
        self.envs: list[gym.Env[Any, Any]] = []
        for row in range(self._count):
            self.envs.append(self._factory.make())
            self._check_same_spaces(row, batch_spaces)
        self._steps: list[Callable[[Any], Any]] = [env.step for env in self.envs]

    def _check_same_spaces(self, row: int, wanted: BatchSpaces) -> None:
        env = self.envs[row]
        for name, space in (("observation", wanted.observation), ("action", wanted.action)):
            found = getattr(env, f"{name}_space")
            if found != space:
                raise ValueError(
                    f"environment {self.first_row + row} has the {name} space {found}, the first of the batch has "
                    f"{space}: all environments of a batch must have the same spaces"
                )

    @staticmethod
    def _float_views(slot: Slot) -> list[NDArray]:
        return [slot.reward.reshape(-1), *(a.reshape(-1) for a in slot.observation if a.dtype.kind == "f")]

    # Stepping ----------------------------------------------------------------------------------------------------

    def reset(self, index: int) -> None:
        """Resets all worlds, giving their FIRST steps in slot `index`."""
        slot = self._slots[index]
        for row in range(self._count):
            self._progress[0] = row
            self._reset_row(row, slot)
        self._not_mid[index] = list(range(self._count))
        self._current = index

    def step(self, index: int) -> None:
        """Takes the actions in slot `index` and fills the rest of the slot with where they lead."""
        self.ticks += 1
        slot, previous = self._slots[index], self._slots[self._current]
        not_mid = self._not_mid[index]
        if not_mid:
            for row in not_mid:
                slot.step_type[row] = MID
                slot.discount[row] = 1.0
            self._not_mid[index] = not_mid = []
        actions = [a.astype(dtype) for a, dtype in zip(slot.action, self._action_dtypes, strict=True)]
        self._step_rows(slot, previous, actions, not_mid)
        self._check_values(index, self._current)
        self._current = index

    def _step_rows(self, slot: Slot, previous: Slot, actions: list[NDArray], not_mid: list[int]) -> None:
        """The loop over the worlds: everything in it is paid once per environment step."""
        build = self._build_action
        needs_reset, steps, progress = self._needs_reset, self._steps, self._progress
        only_action = actions[0] if self._plain_action else None
        usual_rewards = (float, np.float64) if self._reward_shape == () else ()
        usual_flags = (bool, np.bool_)
        leaf = self._only_leaf
        shape = None if leaf is None or leaf.keys else leaf.shape
        dtype = None if leaf is None else leaf.dtype
        only_observation = None if shape is None else slot.observation[0]
        rewards = slot.reward
        has_info = bool(self._info_leaves)
        for row in range(self._count):
            progress[0] = row
            if needs_reset[row]:
                self._reset_row(row, slot)
                not_mid.append(row)
                continue
            try:
                action = build(actions, row) if only_action is None else only_action[row]
                result = steps[row](action)
                if result.__class__ is not tuple or len(result) != 5:
                    raise InvalidReturnError(describe_result("step", result))
                observation, reward, terminated, truncated, info = result
                if terminated.__class__ not in usual_flags:
                    terminated = checked_flag("terminated", terminated)
                if truncated.__class__ not in usual_flags:
                    truncated = checked_flag("truncated", truncated)
                if (
                    only_observation is not None
                    and observation.__class__ is np.ndarray
                    and observation.shape == shape
                    and observation.dtype == dtype
                ):
                    only_observation[row] = observation
                else:
                    self._write_observation(row, observation, slot)
                if reward.__class__ not in usual_rewards:
                    reward = checked_reward(reward, self._reward_shape)
                rewards[row] = reward
                if has_info:
                    self._write_info(row, info, slot)
            except Exception as error:
                self._fail_step(row, error, slot, previous)
                not_mid.append(row)
                continue
            if terminated or truncated:
                slot.step_type[row] = LAST
                slot.discount[row] = 0.0 if terminated else 1.0
                needs_reset[row] = True
                not_mid.append(row)

    def _write_observation(self, row: int, observation: Any, slot: Slot) -> None:
        for writer, array in zip(self._writers, slot.observation, strict=True):
            writer.write(array, row, observation)

    def _write_info(self, row: int, info: dict[str, Any], slot: Slot) -> None:
        if not isinstance(info, Mapping):
            raise InvalidReturnError(f"info is {shown(info)}: return a dict")
        for leaf, read, array in zip(self._info_leaves, self._info_readers, slot.env_info, strict=True):
            try:
                value = read(info)
            except KeyError:
                value = 0
            try:
                array[row] = value
            except (TypeError, ValueError) as error:
                raise InvalidReturnError(f"info at {leaf.path!r} is {value!r}: {error}") from error

    def recover(self, index: int, previous: int) -> None:
        """Fills slot `index` with newly made worlds in the place of lost ones.

        Episodes that had ended in slot `previous` begin anew; the others end here, truncated.
        """
        before, slot = self._slots[previous], self._slots[index]
        for row in range(self._count):
            self._progress[0] = row
            if before.step_type[row] == LAST:
                self._reset_row(row, slot)
            else:
                cut_row(slot, before, row)
                self._needs_reset[row] = True
        self._not_mid[index] = list(range(self._count))
        self._current = index

    # Resetting ---------------------------------------------------------------------------------------------------

    def _reset_row(self, row: int, slot: Slot) -> None:
        """Resets one world and writes its FIRST step; makes the world anew until a reset succeeds."""
        while True:
            seed = self._seeds[row]
            try:
                env = self.envs[row]
                if seed is None:
                    result = env.reset()
                else:
                    env.action_space.seed(seed)
                    result = env.reset(seed=seed)
                if not isinstance(result, tuple) or len(result) != 2:
                    raise InvalidReturnError(describe_result("reset", result))
                observation, info = result
                self._write_observation(row, observation, slot)
                self._write_info(row, info, slot)
                self._require_valid(row, slot)
            except Exception as error:
                self._restart(row, error)
                continue
            break
        self._seeds[row] = None
        self._needs_reset[row] = False
        self._episode_start[row] = self.ticks
        slot.reward[row] = 0.0
        slot.discount[row] = 1.0
        slot.step_type[row] = FIRST
        for array in slot.action:
            array[row] = 0

    def seed(self, seeds: Sequence[int]) -> None:
        """Uses one seed for each world at its next reset."""
        self._seeds = list(seeds)
        self._base_seeds = list(seeds)
        self._restarts = [0] * self._count

    # Faults ------------------------------------------------------------------------------------------------------

    def _check_values(self, index: int, previous: int) -> None:
        """Looks at the numbers of all rows at once, and closer where something is wrong."""
        for flat in self._floats[index]:
            square = flat.dot(flat)
            # A sum of squares is finite unless an element is NaN or infinite, or it overflowed: look closer then.
            if square - square != 0.0:
                self._repair_rows(index, previous)
                return
        slot = self._slots[index]
        for bounds in self._bounds:
            if bounds.are_left(slot.observation[bounds.position], self.ticks):
                self._repair_rows(index, previous)
                return

    def _repair_rows(self, index: int, previous: int) -> None:
        slot = self._slots[index]
        for row in range(self._count):
            try:
                if not np.isfinite(slot.reward[row]).all():
                    raise InvalidReturnError(f"reward is {slot.reward[row]}: return a finite number")
                self._require_valid(row, slot)
            except InvalidReturnError as error:
                self._fail_step(row, error, slot, self._slots[previous])
                if row not in self._not_mid[index]:
                    self._not_mid[index].append(row)

    def _require_valid(self, row: int, slot: Slot) -> None:
        for writer, array in zip(self._writers, slot.observation, strict=True):
            if array.dtype.kind == "f" and not np.isfinite(array[row]).all():
                what = "NaN" if np.isnan(array[row]).any() else "infinite numbers"
                raise InvalidReturnError(f"{writer.what} contains {what}: {shown(array[row])}. Return finite numbers")
        for bounds in self._bounds:
            bounds.require(slot.observation[bounds.position], row, self.first_row + row, self.ticks)

    def _fail_step(self, row: int, error: Exception, slot: Slot, previous: Slot) -> None:
        """Ends the episode of a failed world as truncated, with the last good observation."""
        self._restart(row, error)
        cut_row(slot, previous, row)
        self._needs_reset[row] = True

    def _restart(self, row: int, error: Exception) -> None:
        """Reports a fault and makes the world anew; raises where the policy does not endure it."""
        while True:
            self._log.add(self._fault(row, error))
            close_quietly(self.envs[row])
            self._restarts[row] += 1
            self._seeds[row] = row_seed(self._base_seeds[row], row, self._restarts[row])
            try:
                self.envs[row] = self._factory.make()
            except Exception as failure:
                error = failure
                continue
            self._steps[row] = self.envs[row].step
            return

    def _fault(self, row: int, error: Exception) -> Fault:
        env_id = self.first_row + row
        since = f"{self.ticks - self._episode_start[row]} steps into its episode: "
        if isinstance(error, InvalidReturnError):
            return Fault(env_id, self.ticks, "invalid", since + str(error))
        text = "".join(traceback.format_exception(error))[-_TRACEBACK_CHARACTERS:]
        return Fault(env_id, self.ticks, "raised", f"{since}{type(error).__name__}: {error}\n{text}")

    # Saving ------------------------------------------------------------------------------------------------------

    def get_state(self) -> list[dict[str, Any]]:
        """The state of each world as plain data; "env" is None, with a "reason", where a world has no plain form."""
        states = []
        for row, env in enumerate(self.envs):
            state: dict[str, Any] = {
                "needs_reset": self._needs_reset[row],
                "seed": self._seeds[row],
                "base_seed": self._base_seeds[row],
                "restarts": self._restarts[row],
                "episode_steps": self.ticks - self._episode_start[row],
                "env": None,
            }
            if state["seed"] is None:
                try:
                    state["env"] = capture(env)
                except NotResumableError as reason:
                    state["reason"] = str(reason)
            states.append(state)
        return states

    def set_state(self, states: Sequence[dict[str, Any]], index: int) -> dict[int, str]:
        """Goes on from saved states, with slot `index` as the current step.

        Returns:
            For each row of the batch whose episode had to be cut, the reason. The slot is changed accordingly.
        """
        slot = self._slots[index]
        cut: dict[int, str] = {}
        for row, state in enumerate(states):
            if state["base_seed"] is not None:
                self._base_seeds[row] = state["base_seed"]
            self._restarts[row] = state["restarts"]
            self._seeds[row] = state["seed"]
            self._needs_reset[row] = state["needs_reset"]
            self._episode_start[row] = self.ticks - state["episode_steps"]
            if state["seed"] is not None:
                continue  # A newly made world that waits for its first reset: nothing else to restore.
            try:
                if state["env"] is None:
                    raise NotResumableError(state["reason"])
                self.envs[row].reset(seed=self._base_seeds[row])
                restore(self.envs[row], state["env"])
            except NotResumableError as reason:
                cut[self.first_row + row] = str(reason)
                self._cut_at_resume(row, slot)
        self._current = index
        self._not_mid = [list(range(self._count)) for _ in self._slots]
        return cut

    def _cut_at_resume(self, row: int, slot: Slot) -> None:
        """Ends the episode of a world that cannot go on; a world that had just begun begins again."""
        self._restarts[row] += 1
        self._seeds[row] = row_seed(self._base_seeds[row], row, self._restarts[row])
        if slot.step_type[row] == FIRST:
            self._reset_row(row, slot)
        elif slot.step_type[row] == MID:
            slot.step_type[row] = LAST
            slot.discount[row] = 1.0
            self._needs_reset[row] = True

    # Leaving -----------------------------------------------------------------------------------------------------

    def render(self) -> list[Any]:
        """One frame of each world."""
        return [env.render() for env in self.envs]

    def close(self) -> None:
        """Closes the worlds."""
        for env in self.envs:
            close_quietly(env)
        self.envs = []
        self._steps = []


SINGLE_WORLDS = "single worlds"
"""The form of the states that `EnvRows` saves, whatever backend it runs in."""


def lost_states(slot: Slot, reason: str) -> list[dict[str, Any]]:
    """States for `EnvRows.set_state` that let it cut all rows of a batch, with `slot` as the current step."""
    return [
        {
            "needs_reset": bool(step_type == LAST),
            "seed": None,
            "base_seed": None,
            "restarts": 0,
            "episode_steps": 0,
            "env": None,
            "reason": reason,
        }
        for step_type in slot.step_type
    ]


def cut_row(slot: Slot, previous: Slot, row: int) -> None:
    """Makes row `row` of `slot` the truncated end of its episode, showing the observation of the previous step again."""
    for array, before in zip(slot.observation, previous.observation, strict=True):
        array[row] = before[row]
    for array in slot.env_info:
        array[row] = 0
    slot.reward[row] = 0.0
    slot.discount[row] = 1.0
    slot.step_type[row] = LAST
