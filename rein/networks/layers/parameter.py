"""Learnt tensors that depend on no input: a bias added, or a vector broadcast over the batch."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from rein.config import configurable
from rein.networks.layers.layer import Layer, ParallelLayer


@configurable
class LearnedTensor(Layer):
    """A learnt tensor, broadcast over the leading dimensions of its argument."""

    def __init__(self, shape: Sequence[int], init_value: float = 0.0) -> None:
        """Starts with every entry at `init_value`.

        Args:
            shape: of the tensor.
            init_value: initial value of each entry.
        """
        super().__init__()
        self.shape = tuple(shape)
        self.init_value = init_value
        self.value = nn.Parameter(torch.full(self.shape, float(init_value)))

    def reset_parameters(self) -> None:
        """Sets every entry to the initial value."""
        nn.init.constant_(self.value, self.init_value)

    def forward(self, like: Tensor, event_dims: int | None = None) -> Tensor:
        """The tensor with leading dimensions that broadcast with those of `like`.

        Args:
            like: [..., *event].
            event_dims: number of dimensions of `like` after the leading ones; None: as many as the tensor has.

        Returns:
            [*leading of like or 1, *shape].
        """
        event = len(self.shape) if event_dims is None else event_dims
        return self.value.expand(*like.shape[: like.ndim - event], *self.shape)

    def new_parallel(self, n: int) -> "ParallelLearnedTensor":
        """A `ParallelLearnedTensor` of this shape."""
        return ParallelLearnedTensor(self, n)


class ParallelLearnedTensor(ParallelLayer):
    """`n` learnt tensors, broadcast to [n, ..., *shape]."""

    def __init__(self, layer: LearnedTensor, n: int) -> None:
        """Takes the shape of `layer`; the values are to be loaded."""
        super().__init__(n)
        self.shape = layer.shape
        self.value = nn.Parameter(layer.value.new_empty(n, *self.shape))

    def forward(self, like: Tensor, event_dims: int | None = None) -> Tensor:
        """The tensors with the leading dimensions of `like`, see `LearnedTensor`."""
        event = len(self.shape) if event_dims is None else event_dims
        lead = like.shape[1 : like.ndim - event]
        view = self.value.view(self.n, *(1 for _ in lead), *self.shape)
        return view.expand(self.n, *lead, *self.shape)

    def replica_tensors(self, i: int, layer: nn.Module) -> list[tuple[Tensor, Tensor]]:
        """Pairs of this layer's views and the tensors of `layer`, see `ParallelLayer`."""
        assert isinstance(layer, LearnedTensor)
        return [(self.value[i], layer.value)]
