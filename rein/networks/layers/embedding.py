"""Vectors for whole numbers: learnt embeddings and one-hot codes."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from rein.config import configurable
from rein.networks.layers.layer import Layer, ParallelLayer, check_sizes


@configurable
class Embedding(Layer):
    """A learnt vector for each whole number, [...] to [..., embedding_dim]."""

    def __init__(self, num_embeddings: int, embedding_dim: int, init_std: float = 1.0) -> None:
        """Draws the vectors from a normal distribution.

        Args:
            num_embeddings: inputs are from 0 up to this minus one.
            embedding_dim: length of each vector.
            init_std: standard deviation of the initial entries.
        """
        check_sizes("Embedding", num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.init_std = init_std
        self.weight = nn.Parameter(torch.empty(num_embeddings, embedding_dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws new vectors."""
        nn.init.normal_(self.weight, std=self.init_std)

    def forward(self, x: Tensor) -> Tensor:
        """Maps whole numbers [...] to [..., embedding_dim]."""
        return F.embedding(x.long(), self.weight)

    def new_parallel(self, n: int) -> "ParallelEmbedding":
        """A `ParallelEmbedding` of this layer's sizes."""
        return ParallelEmbedding(self, n)


class ParallelEmbedding(ParallelLayer):
    """`n` embeddings, [n, ...] to [n, ..., embedding_dim]."""

    def __init__(self, layer: Embedding, n: int) -> None:
        """Takes the sizes of `layer`; the vectors are to be loaded."""
        super().__init__(n)
        self.num_embeddings = layer.num_embeddings
        self.weight = nn.Parameter(layer.weight.new_empty(n, *layer.weight.shape))

    def forward(self, x: Tensor) -> Tensor:
        """Maps whole numbers [n, ...] to [n, ..., embedding_dim]."""
        first = torch.arange(self.n, device=x.device) * self.num_embeddings
        rows = x.long() + first.view(-1, *(1,) * (x.ndim - 1))
        return F.embedding(rows, self.weight.flatten(0, 1))

    def replica_tensors(self, i: int, layer: nn.Module) -> list[tuple[Tensor, Tensor]]:
        """Pairs of this layer's views and the tensors of `layer`, see `ParallelLayer`."""
        assert isinstance(layer, Embedding)
        return [(self.weight[i], layer.weight)]


@configurable
class OneHot(Layer):
    """One-hot codes of whole numbers, [...] to [..., num_classes] of float32."""

    def __init__(self, num_classes: int) -> None:
        """Keeps the number of classes.

        Args:
            num_classes: inputs are from 0 up to this minus one.
        """
        check_sizes("OneHot", num_classes=num_classes)
        super().__init__()
        self.num_classes = num_classes

    def forward(self, x: Tensor) -> Tensor:
        """Maps whole numbers [...] to [..., num_classes]."""
        return F.one_hot(x.long(), self.num_classes).to(torch.float32)
