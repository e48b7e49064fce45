"""External memories that are read by content: Wayne et al. (2018), "Unsupervised Predictive Memory" (MERLIN)."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from rein.config import configurable
from rein.networks.layers import FC, Layer
from rein.specs import TensorSpec


class MemoryState(NamedTuple):
    """What is in the memory of each sequence of a batch."""

    memory: Tensor
    """[B, mem_size, mem_dim] contents of the slots."""
    usage: Tensor
    """[B, mem_size] how much each slot was read lately; the least used is overwritten."""


@configurable
class MemoryWithUsage(Layer):
    """A memory of `mem_size` slots, read by similarity, written over the least used slot.

    It has no parameters and holds no contents: its methods take and return a `MemoryState`, which lives in the
    recurrent state of whoever uses it.
    """

    def __init__(
        self,
        mem_dim: int,
        mem_size: int,
        snapshot_only: bool = False,
        normalize: bool = True,
        scale: float | None = None,
        usage_decay: float | None = None,
    ) -> None:
        """Keeps the settings.

        Args:
            mem_dim: length of the vector in each slot.
            mem_size: number of slots.
            snapshot_only: reading does not count as usage, as for a reader that only looks on.
            normalize: compare directions (cosine) in place of dot products.
            scale: factor of the similarities where the reader gives none; None: 1.
            usage_decay: factor of all usages at each write; None: ``1 - 1 / mem_size``.
        """
        super().__init__()
        self.mem_dim = mem_dim
        self.mem_size = mem_size
        self._snapshot_only = snapshot_only
        self._normalize = normalize
        self._scale = 1.0 if scale is None else scale
        self._usage_decay = 1 - 1 / mem_size if usage_decay is None else usage_decay

    @property
    def state_spec(self) -> MemoryState:
        """Specs of the state, without batch dimension."""
        return MemoryState(TensorSpec((self.mem_size, self.mem_dim)), TensorSpec((self.mem_size,)))  # type: ignore[arg-type]

    def initial_state(self, batch_size: int, device: torch.device | None = None) -> MemoryState:
        """An empty memory for each sequence."""
        return MemoryState(
            torch.zeros(batch_size, self.mem_size, self.mem_dim, device=device),
            torch.zeros(batch_size, self.mem_size, device=device),
        )

    def read(self, state: MemoryState, keys: Tensor, scale: Tensor | None = None) -> tuple[Tensor, MemoryState]:
        """Reads the mean of the slots, weighted by the softmax of their similarity with each key.

        Args:
            state: the memory.
            keys: [B, k, mem_dim].
            scale: [B, k] factors of the similarities, larger is sharper; None: the one given at construction.

        Returns:
            [B, k, mem_dim] what was read, and the memory with the usage counted.
        """
        memory = state.memory
        if self._normalize:
            similarity = F.normalize(keys, dim=-1) @ F.normalize(memory, dim=-1).transpose(-1, -2)
        else:
            similarity = keys @ memory.transpose(-1, -2)
        sharpness = self._scale if scale is None else scale.unsqueeze(-1)
        attention = torch.softmax(similarity * sharpness, -1)
        if not self._snapshot_only:
            state = state._replace(usage=state.usage + attention.detach().sum(-2))
        return attention @ memory, state

    def write(self, state: MemoryState, content: Tensor) -> MemoryState:
        """Puts a vector into the least used slot of each sequence.

        Args:
            state: the memory.
            content: [B, mem_dim].
        """
        slot = F.one_hot(state.usage.argmin(-1), self.mem_size).to(content.dtype)
        memory = torch.lerp(state.memory, content.unsqueeze(-2).expand_as(state.memory), slot.unsqueeze(-1))
        usage = state.usage * self._usage_decay
        # A new slot counts as fully used once, so that it is not overwritten before the older ones.
        return MemoryState(memory, usage + slot * (1 - usage))


@configurable
class MemoryReader(Layer):
    """Makes keys and sharpnesses from a query vector and reads a memory with them."""

    def __init__(self, query_size: int, memory: MemoryWithUsage, num_keys: int) -> None:
        """Builds the layer of keys.

        Args:
            query_size: length of the query.
            memory: what is read.
            num_keys: number of reads for each query.
        """
        super().__init__()
        self.memory = memory
        self.num_keys = num_keys
        self.keys = FC(query_size, num_keys * (memory.mem_dim + 1))

    def forward(self, query: Tensor, state: MemoryState) -> tuple[Tensor, MemoryState]:
        """Reads.

        Args:
            query: [B, query_size].
            state: the memory.

        Returns:
            [B, num_keys * mem_dim] what was read, and the memory with the usage counted.
        """
        keys_and_scales = self.keys(query).reshape(*query.shape[:-1], self.num_keys, -1)
        keys, scale = keys_and_scales[..., :-1], F.softplus(keys_and_scales[..., -1])
        read, state = self.memory.read(state, keys, scale)
        return read.flatten(-2), state
