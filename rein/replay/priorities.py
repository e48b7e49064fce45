"""Priorities of the starts of sequences, for sampling in proportion to them."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from rein.replay.kernels import compiled
from rein.replay.segment_tree import SumSegmentTree

__all__ = ["Priorities"]


class Priorities:
    """One priority per stored step, zero where no sequence can start.

    A step can start a sequence of `length` steps if so many are stored from it on, and if it is not among the ignored
    earliest ones of its environment. A step that becomes a start gets the largest priority there is.
    """

    def __init__(
        self,
        max_length: int,
        pos: Tensor,
        size: Tensor,
        length: Tensor,
        num_ignored: int,
        initial: float,
        name: str,
    ) -> None:
        """Priorities of nothing yet.

        Args:
            max_length: steps per environment.
            pos: int64 [num_envs], positions of the next steps, kept by the buffer.
            size: int64 [num_envs], numbers of stored steps, kept by the buffer.
            length: int64 scalar for this object to keep: steps per sequence.
            num_ignored: number of oldest steps of each environment that are no starts.
            initial: least priority of new starts.
            name: of the buffer, for messages.
        """
        self._max_length, self._pos, self._size = max_length, pos, size
        self._num_envs, self._num_ignored = len(pos), num_ignored
        self._initial, self._name = initial, name
        self._length = length
        self._length.fill_(1)
        self.tree = SumSegmentTree(len(pos) * max_length, device=pos.device, name=f"{name}.priorities")
        if pos.is_shared() and pos.is_cpu:  # type: ignore[no-untyped-call]
            self.tree.share_memory()
        self.bind()

    def bind(self) -> None:
        """Looks up addresses, which differ between processes."""
        self._loops = compiled(self._pos.device)
        self._length_number = self._length.numpy()
        self._ring_at = (
            self._max_length,
            self._num_envs,
            self._pos.data_ptr(),
            self._size.data_ptr(),
            self._num_ignored,
        )

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_loops", "_ring_at", "_length_number")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.bind()

    @property
    def length(self) -> int:
        """Steps per sequence that the starts are meant for."""
        return int(self._length_number)

    @property
    def initial(self) -> float:
        """The priority that a new start gets."""
        return max(self.tree.max(), self._initial)

    def add(self, env_ids: Tensor) -> None:
        """Takes notice of one step that was added to each of the environments."""
        if self._loops is not None:
            self._loops.prioritize_new(
                env_ids.data_ptr(),
                env_ids.shape[0],
                *self._ring_at,
                self.length,
                self.initial,
                *self.tree.address,
            )
            return
        length, initial = self.length, self.initial
        end, size = self._pos[env_ids], self._size[env_ids]
        start = end - length
        can_start = start >= end - size + self._num_ignored
        if self._num_ignored:
            known = size >= self._num_ignored
            old = (end - size + self._num_ignored - 1)[known]
            self._set(env_ids[known], old, 0.0)
        fresh = ~can_start if length == 1 else torch.ones_like(can_start)
        self._set(env_ids[fresh], (end - 1)[fresh], 0.0)
        self._set(env_ids[can_start], start[can_start], initial)

    def update(self, env_ids: Tensor, positions: Tensor, priorities: Tensor) -> None:
        """Sets the priorities of steps, except of those that are no starts (any more).

        Args:
            env_ids: int64 [B].
            positions: int64 [B].
            priorities: float32 [B].
        """
        if self._loops is not None:
            result = self._loops.update_priorities(
                env_ids.data_ptr(),
                positions.data_ptr(),
                priorities.data_ptr(),
                env_ids.shape[0],
                *self._ring_at,
                self.length,
                *self.tree.address,
            )
            if result != self._loops.OK:
                index, what = divmod(result, 2)
                self._refuse(env_ids, positions, priorities, index, what == self._loops.BAD_PRIORITY)
            return
        no_env = (env_ids < 0) | (env_ids >= self._num_envs)
        end = self._pos[env_ids.clamp(0, self._num_envs - 1)]
        no_step = no_env | (positions < 0) | (positions >= end)
        bad = no_step | ~((priorities >= 0) & (priorities < torch.inf))
        if bool(bad.any()):
            index = int(bad.to(torch.int8).argmax())
            self._refuse(env_ids, positions, priorities, index, not bool(no_step[index]))
        first = end - self._size[env_ids] + self._num_ignored
        kept = (positions >= first) & (positions <= end - self.length)
        self._set(env_ids[kept], positions[kept], priorities[kept])

    def remove(self, env_ids: Tensor, n: int) -> None:
        """Takes the priorities of the `n` oldest steps of each environment away, before they are removed."""
        size = self._size[env_ids].clamp(max=n)
        if self._num_ignored:
            size = size + self._num_ignored
        size = torch.minimum(size, self._size[env_ids])
        repeated = torch.repeat_interleave(env_ids, size)
        first = torch.repeat_interleave(size.cumsum(0) - size, size)
        offset = torch.arange(len(repeated), device=repeated.device) - first
        self._set(repeated, (self._pos - self._size)[repeated] + offset, 0.0)

    def set_length(self, length: int) -> None:
        """Makes the starts fit sequences of another length; a change loses the priorities of the newest steps."""
        if length == self.length:
            return
        short, long = sorted((length, self.length))
        back = torch.arange(short, long, device=self._pos.device)
        positions = self._pos[:, None] - back
        stored = positions >= (self._pos - self._size + self._num_ignored)[:, None]
        env_ids = torch.arange(self._num_envs, device=self._pos.device)[:, None].expand_as(positions)
        value = self.initial if length < self.length else 0.0
        self._set(env_ids[stored], positions[stored], value)
        self._length.fill_(length)

    def load(self, leaves: Tensor, values: Tensor, length: int) -> None:
        """Replaces all priorities: `values` at `leaves` and zero elsewhere, for sequences of `length` steps."""
        self.tree.clear()
        self.tree.set(leaves, values.to(leaves.device, torch.float32).contiguous())
        self._length.fill_(length)

    def sample(self, num: int, is_stratified: bool, generator: torch.Generator | None) -> Tensor | None:
        """int64 [num] leaves drawn in proportion to their priorities, sorted; None if all priorities are 0."""
        device = self._pos.device
        uniform = torch.rand(num, dtype=torch.float64, generator=generator, device=device)
        if not is_stratified:
            uniform = uniform.sort().values
        if self._loops is None:
            total = float(self.tree.summary())
            if total <= 0:
                return None
            if is_stratified:
                uniform = (torch.arange(num, device=device) + uniform) / num
            return self.tree.find(uniform * total)
        leaves = torch.from_numpy(np.empty(num, np.int64))
        total = self._loops.sample_leaves(*self.tree.address, uniform.data_ptr(), num, is_stratified, leaves.data_ptr())
        return leaves if total > 0 else None

    def locate(self, leaves: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Environment ids, positions and importance weights [num] of leaves.

        The weight is the priority divided by the average of all priorities that are not zero.
        """
        if self._loops is None:
            scale = self.tree.nnz / float(self.tree.summary())
            env_ids = leaves // self._max_length
            newest = self._pos[env_ids] - 1
            positions = newest - (newest - leaves % self._max_length) % self._max_length
            weights = (self.tree.leaves[leaves].to(torch.float64) * scale).to(torch.float32)
            return env_ids, positions, weights
        num = leaves.shape[0]
        env_ids = torch.from_numpy(np.empty(num, np.int64))
        positions = torch.from_numpy(np.empty(num, np.int64))
        weights = torch.from_numpy(np.empty(num, np.float32))
        self._loops.locate_leaves(
            leaves.data_ptr(),
            num,
            *self._ring_at[:3],
            *self.tree.address,
            env_ids.data_ptr(),
            positions.data_ptr(),
            weights.data_ptr(),
        )
        return env_ids, positions, weights

    def _set(self, env_ids: Tensor, positions: Tensor, values: Tensor | float) -> None:
        leaves = env_ids * self._max_length + positions % self._max_length
        new = torch.as_tensor(values, dtype=torch.float32, device=leaves.device).expand(leaves.shape)
        self.tree.set(leaves, new.contiguous())

    def _refuse(self, env_ids: Tensor, positions: Tensor, priorities: Tensor, index: int, is_priority: bool) -> None:
        if is_priority:
            raise ValueError(
                f"priority {index} for {self._name} is {float(priorities[index])}: give finite numbers of at least 0"
            )
        raise ValueError(
            f"{self._name} never stored position {int(positions[index])} of environment "
            f"{int(env_ids[index])}, whose priority {index} would be"
        )
