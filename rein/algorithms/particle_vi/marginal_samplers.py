"""Samples of the product of the marginals of x and y, from samples (x, y) of their joint distribution."""

import torch
from torch import Tensor, nn

from rein import nest
from rein.nest import Nest
from rein.specs import TensorSpec
from rein.statistics.frozen import are_statistics_frozen

SAMPLERS = ("buffer", "double_buffer", "shuffle", "shift")


class SampleBuffer(nn.Module):
    """The newest examples of a nest of tensors, saved with the module that holds it."""

    _added: Tensor

    def __init__(self, spec: Nest, capacity: int) -> None:
        """Starts empty.

        Args:
            spec: nest of specs of one example.
            capacity: number of examples kept.
        """
        super().__init__()
        if capacity < 1:
            raise ValueError(f"a buffer of {capacity} examples: at least 1 is needed")
        self._spec = spec
        self._capacity = capacity
        for number, leaf in enumerate(nest.flatten(spec)):
            assert isinstance(leaf, TensorSpec)
            self.register_buffer(f"leaf_{number}", leaf.zeros((capacity,)))
        self.register_buffer("_added", torch.zeros((), dtype=torch.int64))

    @property
    def size(self) -> int:
        """Number of examples that it holds."""
        return min(int(self._added), self._capacity)

    def _leaves(self) -> list[Tensor]:
        return [tensor for name, tensor in self._buffers.items() if name != "_added" and tensor is not None]

    @torch.no_grad()
    def add(self, batch: Nest) -> None:
        """Stores a nest of tensors [B, ...] in the place of the oldest examples."""
        if are_statistics_frozen():
            return
        count = nest.get_nest_batch_size(batch)
        kept = min(count, self._capacity)
        first = int(self._added) + count - kept
        places = (torch.arange(kept) + first) % self._capacity
        for store, leaf in zip(self._leaves(), nest.flatten(batch), strict=True):
            store[places.to(store.device)] = leaf[count - kept :].detach()
        self._added += count

    def draw(self, count: int) -> Nest:
        """A nest of tensors [count, ...], drawn with replacement."""
        rows = torch.randint(self.size, (count,))
        return nest.pack_sequence_as(self._spec, [store[rows.to(store.device)] for store in self._leaves()])


class MarginalSampler(nn.Module):
    """One of the ways to get samples of the product of marginals."""

    def __init__(self, kind: str, x_spec: Nest, y_spec: Nest, buffer_size: int) -> None:
        """Makes the buffers that it needs.

        Args:
            kind: one of `SAMPLERS`.
            x_spec: specs of x.
            y_spec: specs of y.
            buffer_size: capacity of each buffer.
        """
        super().__init__()
        if kind not in SAMPLERS:
            raise ValueError(f"sampler is {kind!r}: choose one of {', '.join(SAMPLERS)}")
        self._kind = kind
        self._x_buffer = SampleBuffer(x_spec, buffer_size) if kind == "double_buffer" else None
        self._y_buffer = SampleBuffer(y_spec, buffer_size) if kind in ("buffer", "double_buffer") else None

    def forward(self, x: Nest, y: Nest) -> tuple[Nest, Nest]:
        """Independent samples (x', y') for paired samples (x, y) of [B, ...].

        "shift" pairs each x with the y before it, "shuffle" with one at random; gradient reaches y. "buffer" pairs each
        x with an earlier y, "double_buffer" draws both.
        """
        count = nest.get_nest_batch_size(x)
        if self._kind == "shift":
            return x, nest.map_structure(lambda t: t.roll(1, 0), y)
        if self._kind == "shuffle":
            order = torch.randperm(count)
            return x, nest.map_structure(lambda t: t[order.to(t.device)], y)
        assert self._y_buffer is not None
        if self._x_buffer is not None:
            self._x_buffer.add(x)
            self._y_buffer.add(y)
            return self._x_buffer.draw(count), self._y_buffer.draw(count)
        # Older examples are independent of these; only the first ones have to do with themselves.
        draws_first = self._y_buffer.size >= count
        if not draws_first:
            self._y_buffer.add(y)
        other_y = self._y_buffer.draw(count)
        if draws_first:
            self._y_buffer.add(y)
        return x, other_y
