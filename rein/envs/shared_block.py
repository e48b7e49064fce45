"""One block of memory that holds everything a batch of environments reads and writes.

A block has a few *slots*, each with room for one batched `TimeStep`. Environments write straight into the arrays of a
slot, and the tensors that a user sees are views of the same memory. The block may be ordinary memory, or memory shared
with worker processes; workers and parent compute the same layout and so agree where everything lies.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from rein.envs.leaves import Leaf, leaves_of

__all__ = ["BatchSpaces", "BlockLayout", "Slot"]

_ALIGNMENT = 64

FIRST, MID, LAST = 0, 1, 2
"""Values of `rein.data_structures.StepType`, repeated here because workers do not load torch."""


@dataclass(frozen=True)
class BatchSpaces:
    """What one environment of a batch takes and gives."""

    observation: spaces.Space[Any]
    action: spaces.Space[Any]
    reward_dim: int | None = None
    """None for a scalar reward, else the number of its components."""
    env_info: spaces.Space[Any] | None = None
    """Space of the numbers taken from `info` at each step; None for none."""
    num_tasks: int | None = None
    task_names: tuple[str, ...] | None = None
    fitted_from: tuple[spaces.Space[Any], str] | None = None
    """The action space that the world itself has, and the form its actions were brought into; None if they were not."""


@dataclass(frozen=True)
class Slot:
    """The arrays of one batched step, [B, ...] each."""

    observation: list[NDArray]
    reward: NDArray[np.float32]
    discount: NDArray[np.float32]
    step_type: NDArray[np.int32]
    action: list[NDArray]
    """The action that leads to this step: written by the parent, read by the worlds, zeroed where they reset."""
    env_info: list[NDArray]

    def rows(self, start: int, stop: int) -> "Slot":
        """The part of the slot that belongs to environments `start` to `stop` (not included)."""
        part = slice(start, stop)
        return Slot(
            [array[part] for array in self.observation],
            self.reward[part],
            self.discount[part],
            self.step_type[part],
            [array[part] for array in self.action],
            [array[part] for array in self.env_info],
        )

    def arrays(self) -> list[NDArray]:
        """All arrays of the slot, always in the same order."""
        scalars: list[NDArray] = [self.reward, self.discount, self.step_type]
        return [*self.observation, *scalars, *self.action, *self.env_info]


class BlockLayout:
    """Where each array lies in a block of bytes."""

    def __init__(self, batch_spaces: BatchSpaces, batch_size: int, num_slots: int) -> None:
        """Lays out `num_slots` slots of `batch_size` environments.

        Args:
            batch_spaces: what each environment takes and gives.
            batch_size: number of environments.
            num_slots: number of batched steps that the block holds.
        """
        self.observation = leaves_of(batch_spaces.observation)
        self.action = leaves_of(batch_spaces.action)
        info = batch_spaces.env_info
        self.env_info: list[Leaf] = [] if info is None else leaves_of(info)
        self.batch_size = batch_size
        self.num_slots = num_slots
        dim = batch_spaces.reward_dim
        reward = ((() if dim is None else (dim,)), np.dtype(np.float32))
        fields: list[tuple[tuple[int, ...], np.dtype]] = [
            *((leaf.shape, leaf.dtype) for leaf in self.observation),
            reward,
            ((), np.dtype(np.float32)),
            ((), np.dtype(np.int32)),
            *((leaf.shape, leaf.dtype) for leaf in self.action),
            *((leaf.shape, leaf.dtype) for leaf in self.env_info),
        ]
        self._places: list[tuple[int, tuple[int, ...], np.dtype]] = []
        offset = 0
        for _ in range(num_slots):
            for shape, dtype in fields:
                full = (batch_size, *shape)
                self._places.append((offset, full, dtype))
                size = int(np.prod(full, dtype=np.int64)) * dtype.itemsize
                offset += -(-size // _ALIGNMENT) * _ALIGNMENT
        self.nbytes = max(offset, _ALIGNMENT)
        """Size of the block in bytes."""

    def slots(self, block: NDArray[np.uint8]) -> list[Slot]:
        """The slots as arrays over `block`, a byte array of at least `nbytes`."""
        arrays = [self._view(block, *place) for place in self._places]
        per_slot = len(arrays) // self.num_slots
        return [self._slot(arrays[i * per_slot : (i + 1) * per_slot]) for i in range(self.num_slots)]

    def _slot(self, arrays: Sequence[NDArray]) -> Slot:
        rest = list(arrays)
        observation = [rest.pop(0) for _ in self.observation]
        reward, discount, step_type = (rest.pop(0) for _ in range(3))
        action = [rest.pop(0) for _ in self.action]
        return Slot(observation, reward, discount, step_type, action, rest)

    @staticmethod
    def _view(block: NDArray[np.uint8], offset: int, shape: tuple[int, ...], dtype: np.dtype) -> NDArray:
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return block[offset : offset + size].view(dtype).reshape(shape)


def private_block(nbytes: int) -> NDArray[np.uint8]:
    """Zeroed bytes of this process, aligned to a cache line."""
    raw = np.zeros(nbytes + _ALIGNMENT, dtype=np.uint8)
    shift = -raw.ctypes.data % _ALIGNMENT
    return raw[shift : shift + nbytes]
