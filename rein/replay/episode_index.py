"""Where episodes begin and end in a ring buffer, and the returns that they earned.

Each row stores two int32. `distance` is, at the first step of an episode, minus the number of steps that followed it
(once the episode is over), and at every other step the number of steps since the first. `disc_0_distance` is the
number of steps since the last discount of 0. Per environment, `open_begin` is the first position of the episode that
goes on (-1: none), and `headless_end` the last position of the one whose first step has been overwritten.

An episode begins with a FIRST step, with the step after a LAST, and with the first step after the buffer was empty. It
ends with a LAST step, or before a FIRST one.
"""

from typing import Any

import torch
from torch import Tensor

from rein import nest
from rein.data_structures import StepType
from rein.nest import Nest
from rein.replay.kernels import compiled
from rein.replay.storage import RowStorage
from rein.specs import TensorSpec

__all__ = ["EpisodeIndex", "find_special_fields", "hidden_specs"]

DISTANCE, DISC_0_DISTANCE, RETURN = "(distance)", "(disc_0_distance)", "(return)"
_LONGEST = 2**31 - 1


def hidden_specs(with_returns: bool) -> list[tuple[str, TensorSpec]]:
    """The fields that the index adds to each row."""
    counters = [(name, TensorSpec((), torch.int32)) for name in (DISTANCE, DISC_0_DISTANCE)]
    return [(RETURN, TensorSpec(())), *counters] if with_returns else counters


def find_special_fields(data_spec: Nest, keep_episodic_info: bool, record_episodic_return: bool) -> dict[str, int]:
    """Indices of the fields that tell where episodes end: at the top of the nest or in its `time_step`."""
    named = nest.flatten_with_paths(data_spec)
    dtypes = {"step_type": torch.int32, "discount": torch.float32, "reward": torch.float32}
    found: dict[str, int] = {}
    for index, (path, spec) in enumerate(named):
        field = path.removeprefix("time_step.")
        if field in dtypes and field not in found and spec.ndim == 0 and spec.dtype == dtypes[field]:
            found[field] = index
    needed = ["step_type"] if keep_episodic_info else []
    needed += ["reward", "discount"] if record_episodic_return else []
    for field in needed:
        if field not in found:
            raise ValueError(
                f"episodes need a scalar {dtypes[field]} at {field!r} or 'time_step.{field}' in "
                f"data_spec, which has {[path for path, _ in named]}"
            )
    return found


class EpisodeIndex:
    """Answers in constant time where the episode of a step begins and ends."""

    def __init__(self, storage: RowStorage, pos: Tensor, size: Tensor, state: Tensor) -> None:
        """An index of nothing yet.

        Args:
            storage: rows with the fields of `hidden_specs`.
            pos: int64 [num_envs], positions of the next steps, kept by the buffer.
            size: int64 [num_envs], numbers of stored steps, kept by the buffer.
            state: int64 [3 * num_envs], for the index to keep.
        """
        self._storage, self._pos, self._size, self.state = storage, pos, size, state
        self.state.fill_(-1)
        self.bind()

    def bind(self) -> None:
        """Looks up views and addresses, which differ between processes."""
        storage = self._storage
        self._num_envs, self._max_length = storage.num_envs, storage.max_length
        self._loops = compiled(storage.device)
        self.open_begin, self.headless_end, self.last_disc_0 = self.state.split(self._num_envs)  # type: ignore[no-untyped-call]
        names = {field.path: index for index, field in enumerate(storage.fields)}
        self.distance = storage.view(names[DISTANCE])
        self.disc_0_distance = storage.view(names[DISC_0_DISTANCE])
        self.returns = storage.view(names[RETURN]) if RETURN in names else None
        self._stride = storage.rows[storage.fields[names[DISTANCE]].group].shape[1]
        self._sizes_at = (self._num_envs, self._pos.data_ptr(), self._size.data_ptr())

    def __getstate__(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("_storage", "_pos", "_size", "state")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.bind()

    def add(self, step_type: Tensor, discount: Tensor, env_ids: Tensor) -> int:
        """Indexes one step per environment, to be called before it is written.

        Args:
            step_type: int32 [B].
            discount: float32 [B].
            env_ids: int64 [B], distinct.

        Returns:
            How many of the steps end an episode.
        """
        if self._loops is None:
            return self._add_with_torch(step_type, discount, env_ids)
        finished: int = self._loops.index_steps(
            step_type.data_ptr(),
            discount.data_ptr(),
            env_ids.data_ptr(),
            env_ids.shape[0],
            self._max_length,
            *self._sizes_at,
            self.distance.data_ptr(),
            self._stride,
            self.disc_0_distance.data_ptr(),
            self.open_begin.data_ptr(),
            self.headless_end.data_ptr(),
            self.last_disc_0.data_ptr(),
        )
        return finished

    def _add_with_torch(self, step_type: Tensor, discount: Tensor, env_ids: Tensor) -> int:
        position, size = self._pos[env_ids], self._size[env_ids]
        slot = position % self._max_length
        is_full = size == self._max_length
        back = self.distance[env_ids, slot].to(torch.int64)
        oldest = position - size
        loses_begin = is_full & (back <= 0) & (oldest != self.open_begin[env_ids])
        self.headless_end[env_ids[loses_begin]] = (oldest - back)[loses_begin]
        earliest = oldest + is_full
        cuts = (step_type == StepType.FIRST) & (self.open_begin[env_ids] >= 0)
        self._close(env_ids[cuts], position[cuts] - 1, earliest[cuts])
        begins = env_ids[self.open_begin[env_ids] < 0]
        self.open_begin[begins] = self._pos[begins]
        since = (position - self.open_begin[env_ids]).clamp(max=_LONGEST)
        self.distance[env_ids, slot] = since.to(torch.int32)
        is_zero = (self.last_disc_0[env_ids] < 0) | (discount == 0)
        self.last_disc_0[env_ids[is_zero]] = position[is_zero]
        since = (position - self.last_disc_0[env_ids]).clamp(max=_LONGEST)
        self.disc_0_distance[env_ids, slot] = since.to(torch.int32)
        ends = step_type == StepType.LAST
        self._close(env_ids[ends], position[ends], earliest[ends])
        return int(ends.sum())

    def _close(self, env_ids: Tensor, end: Tensor, earliest: Tensor) -> None:
        """Notes that the open episodes of `env_ids` end at `end`."""
        begin = self.open_begin[env_ids]
        is_headless = begin < earliest
        self.headless_end[env_ids[is_headless]] = end[is_headless]
        has_head = ~is_headless
        slot = begin[has_head] % self._max_length
        length = (end - begin)[has_head].clamp(max=_LONGEST)
        self.distance[env_ids[has_head], slot] = -length.to(torch.int32)
        self.open_begin[env_ids] = -1

    def close(self, env_ids: Tensor) -> None:
        """Ends the open episodes of the environments at their newest step."""
        ids = env_ids[self.open_begin[env_ids] >= 0]
        self._close(ids, self._pos[ids] - 1, self._pos[ids] - self._size[ids])

    def remove(self, env_ids: Tensor, n: int) -> None:
        """Prepares for the removal of the `n` oldest steps of each environment."""
        size = self._size[env_ids]
        empties = size <= n
        stays = env_ids[~empties]
        earliest = self._pos[stays] - self._size[stays] + n
        end = self.end(stays, earliest)
        is_headless = self.begin(stays, earliest) < earliest
        self.headless_end[stays[is_headless]] = end[is_headless]
        gone = env_ids[empties]
        self.open_begin[gone] = -1
        self.headless_end[gone] = -1
        self.last_disc_0[gone] = -1

    def earliest(self, env_ids: Tensor) -> Tensor:
        """int64 [B]: position of the oldest stored step of each environment."""
        return self._pos[env_ids] - self._size[env_ids]

    def begin(self, env_ids: Tensor, positions: Tensor) -> Tensor:
        """int64 [B]: first position of the episode of each stored step; it may itself no longer be stored."""
        if self._loops is None:
            back = self.distance[env_ids, positions % self._max_length].to(torch.int64)
            return positions - back.clamp(min=0)
        result = torch.empty_like(positions)
        self._loops.find_episode_begin(
            env_ids.data_ptr(),
            positions.data_ptr(),
            positions.shape[0],
            self._max_length,
            self.distance.data_ptr(),
            self._stride,
            result.data_ptr(),
        )
        return result

    def disc_0_begin(self, env_ids: Tensor, positions: Tensor) -> Tensor:
        """int64 [B]: last position up to each stored step whose discount was 0; it may be gone."""
        if self._loops is None:
            return positions - self.disc_0_distance[env_ids, positions % self._max_length]
        result = torch.empty_like(positions)
        self._loops.find_disc_0(
            env_ids.data_ptr(),
            positions.data_ptr(),
            positions.shape[0],
            self._max_length,
            self.disc_0_distance.data_ptr(),
            self._stride,
            result.data_ptr(),
        )
        return result

    def end(self, env_ids: Tensor, positions: Tensor) -> Tensor:
        """int64 [B]: last position so far of the episode of each stored step."""
        if self._loops is None:
            begin = self.begin(env_ids, positions)
            length = -self.distance[env_ids, begin % self._max_length].to(torch.int64)
            is_headless = begin < self._pos[env_ids] - self._size[env_ids]
            end = torch.where(is_headless, self.headless_end[env_ids], begin + length)
            opened = self.open_begin[env_ids]
            is_open = (opened >= 0) & (positions >= opened)
            return torch.where(is_open, self._pos[env_ids] - 1, end)
        result = torch.empty_like(positions)
        self._loops.find_episode_end(
            env_ids.data_ptr(),
            positions.data_ptr(),
            positions.shape[0],
            self._max_length,
            *self._sizes_at,
            self.distance.data_ptr(),
            self._stride,
            self.open_begin.data_ptr(),
            self.headless_end.data_ptr(),
            result.data_ptr(),
        )
        return result

    def backfill_returns(
        self,
        discount: Tensor,
        env_ids: Tensor,
        fields: tuple[int, int],
        gamma: float,
        reward_clip: tuple[float, float],
    ) -> None:
        """Stores the returns that end at the newest steps with a discount of 0, after these were written.

        They are those of all steps before it in its episode, back to the one that had the last discount of 0: nothing
        that comes later counts for them, also if the episode goes on.

        Args:
            discount: float32 [B], of the newest steps.
            env_ids: int64 [B].
            fields: indices of reward and discount in the storage.
            gamma: discount per step.
            reward_clip: bounds of the rewards.
        """
        storage = self._storage
        assert self.returns is not None
        if self._loops is None:
            self._backfill_with_torch(discount, env_ids, fields, gamma, reward_clip)
            return
        places = [(storage.view(i), storage.fields[i].group) for i in fields]
        strided = [n for v, g in places for n in (v.data_ptr(), storage.rows[g].shape[1])]
        self._loops.backfill_returns(
            discount.data_ptr(),
            env_ids.data_ptr(),
            env_ids.shape[0],
            self._max_length,
            *self._sizes_at,
            self.distance.data_ptr(),
            self._stride,
            *strided,
            self.returns.data_ptr(),
            gamma,
            *reward_clip,
        )

    def _backfill_with_torch(
        self,
        discount: Tensor,
        env_ids: Tensor,
        fields: tuple[int, int],
        gamma: float,
        reward_clip: tuple[float, float],
    ) -> None:
        assert self.returns is not None
        rewards, discounts = (self._storage.view(index) for index in fields)
        ids = env_ids[discount == 0]
        newest = position = self._pos[ids] - 1
        begin = torch.maximum(self.begin(ids, position), self._pos[ids] - self._size[ids])
        total = torch.zeros(len(ids), dtype=torch.float64, device=ids.device)
        while True:
            factor = discounts[ids, position % self._max_length].to(torch.float64)
            keep = (position > begin) & ((factor != 0) | (position == newest))
            ids, newest, position, begin = ids[keep], newest[keep], position[keep], begin[keep]
            if not len(ids):
                return
            reward = rewards[ids, position % self._max_length].to(torch.float64).clamp(*reward_clip)
            total = reward + gamma * factor[keep] * total[keep]
            position = position - 1
            self.returns[ids, position % self._max_length] = total.to(torch.float32)
