"""Small supervised tasks."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset


class Regression(NamedTuple):
    """A linear regression with noise of deviation 1, and its exact posterior for a flat prior."""

    inputs: Tensor
    targets: Tensor
    mean: Tensor
    covariance: Tensor

    def loader(self, batch_size: int) -> "DataLoader[tuple[Tensor, ...]]":
        return DataLoader(TensorDataset(self.inputs, self.targets), batch_size, shuffle=True)


@pytest.fixture
def regression() -> Callable[..., Regression]:
    def make(rows: int = 50, size: int = 3, seed: int = 0) -> Regression:
        generator = torch.Generator().manual_seed(seed)
        inputs = torch.randn(rows, size, generator=generator)
        beta = torch.rand(size, 1, generator=generator) + 5.0
        targets = inputs @ beta + torch.randn(rows, 1, generator=generator)
        inverse = torch.linalg.inv(inputs.t() @ inputs)
        return Regression(inputs, targets, (inverse @ inputs.t() @ targets).squeeze(1), inverse)

    return make


@pytest.fixture
def blobs() -> Callable[..., "tuple[DataLoader[tuple[Tensor, ...]], DataLoader[tuple[Tensor, ...]]]"]:
    """Loaders of three well separated classes in the plane."""

    def make(
        shift: float = 0.0, batch_size: int = 16
    ) -> "tuple[DataLoader[tuple[Tensor, ...]], DataLoader[tuple[Tensor, ...]]]":
        loaders = []
        for seed in (0, 1):
            generator = torch.Generator().manual_seed(seed)
            labels = torch.arange(48) % 3
            centres = torch.tensor([[2.0, 0.0], [-2.0, 2.0], [-2.0, -2.0]])
            inputs = centres[labels] + 0.3 * torch.randn(48, 2, generator=generator) + shift
            loaders.append(DataLoader(TensorDataset(inputs, labels), batch_size, shuffle=seed == 0))
        return loaders[0], loaders[1]

    return make
