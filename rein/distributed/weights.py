"""Weights on their way: all tensors of an algorithm as one flat array, with a version."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rein.framework import RLAlgorithm
from rein.framework.acting.acting_state import ActingState
from rein.framework.asynchronous.shared_records import SharedRecords, fields_of


class Weights:
    """Parameters and buffers of an algorithm, to be copied to and from a flat array.

    Attributes:
        state: the tensors.
    """

    def __init__(self, algorithm: RLAlgorithm) -> None:
        """Finds the tensors of `algorithm`."""
        self.state = ActingState(algorithm)
        self._fields = fields_of(self.state.tensors())

    def flat(self) -> NDArray[np.uint8]:
        """All tensors as they are now, in bytes."""
        records = SharedRecords(self._fields, 1, self._new_block())
        records.write(0, self.state.tensors())
        return records.block.numpy()[0]

    def _new_block(self) -> Tensor:
        return torch.zeros(1, self.size, dtype=torch.uint8)

    @property
    def size(self) -> int:
        """Bytes of the flat array."""
        length = sum(-(-field.dtype.itemsize * torch.Size(field.shape).numel() // 64) * 64 for field in self._fields)
        return max(length, 64)

    def load(self, flat: NDArray[np.uint8], with_acting: bool) -> None:
        """Takes over weights.

        Args:
            flat: from `flat` of another copy; it is only read.
            with_acting: also the buffers that acting changes here, such as statistics of a normalizer.
        """
        tensors = SharedRecords(self._fields, 1, torch.from_numpy(np.array(flat)).unsqueeze(0)).views(0)
        self.state.load(tensors)
        if with_acting:
            buffers = len(self.state.buffers())
            self.state.load_buffers(dict(enumerate(tensors[len(tensors) - buffers :])))


class SharedWeights:
    """A flat array in shared memory that one process writes and others read, without a lock that could die with its owner.

    The writer notes the version before and after it writes; a reader that sees two versions reads again.
    """

    def __init__(self, size: int, block: Tensor | None = None, versions: Tensor | None = None) -> None:
        """Makes the memory, or takes that of another process.

        Args:
            size: in bytes.
            block: [size] uint8; None makes it.
            versions: [3] int64: begun, ended, and the number up to which jobs are to end early; None makes it.
        """
        if block is None or versions is None:
            block, versions = torch.zeros(size, dtype=torch.uint8), torch.full((3,), -1, dtype=torch.int64)
            block.share_memory_()  # type: ignore[no-untyped-call]
            versions.share_memory_()  # type: ignore[no-untyped-call]
        self.block, self.versions = block, versions

    def write(self, flat: NDArray[np.uint8], version: int) -> None:
        """Publishes weights."""
        self.versions[0] = version
        self.block.numpy()[:] = flat
        self.versions[1] = version

    def read(self) -> tuple[NDArray[np.uint8], int]:
        """A copy of the newest weights, and their version."""
        while True:
            version = int(self.versions[1])
            flat = self.block.numpy().copy()
            if int(self.versions[0]) == version == int(self.versions[1]):
                return flat, version
