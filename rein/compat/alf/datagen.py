"""Labelled data for confs of supervised runs."""

import torch
from torch.utils.data import DataLoader, TensorDataset

from rein.config import configurable

__named_with_owner__ = True

Loaders = tuple[DataLoader[tuple[torch.Tensor, ...]], DataLoader[tuple[torch.Tensor, ...]]]


@configurable
def load_test(train_bs: int = 50, test_bs: int = 10, num_workers: int = 0) -> Loaders:
    """A small regression: three numbers to their sum, with weights 1, 2 and 3; 200 examples to train, 50 to test.

    Args:
        train_bs: examples per batch of training.
        test_bs: of testing.
        num_workers: processes that load.
    """
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(250, 3, generator=generator)
    labels = inputs @ torch.tensor([[1.0], [2.0], [3.0]])
    train, test = TensorDataset(inputs[:200], labels[:200]), TensorDataset(inputs[200:], labels[200:])
    return (
        DataLoader(train, train_bs, shuffle=True, num_workers=num_workers),
        DataLoader(test, test_bs, num_workers=num_workers),
    )
