"""Training on plain tensors, for tests of auto-encoders."""

import pytest
import torch

from rein import nest


@pytest.fixture
def fit():
    """A function (algorithm, data, size, epochs) that makes one update for each minibatch of a nest of tensors [N, ...]."""

    def train(algorithm, data, size, epochs):
        for _ in range(epochs):
            for rows in torch.randperm(nest.get_nest_batch_size(data)).split(size):
                batch = nest.map_structure(lambda tensor, rows=rows: tensor[rows], data)
                info = algorithm.train_step(batch).info
                algorithm.update_with_gradient(algorithm.calc_loss(info))
                algorithm.after_update(batch, info)

    return train


@pytest.fixture
def conditional_data():
    """A function (number) that gives one-hot conditions, and targets: N(1, 1) in the first half of the rows, then N(0, 1)."""

    def make(number):
        is_second = (torch.arange(number) >= number // 2).long()
        target = torch.randn(number, 1) + (1 - is_second.unsqueeze(-1))
        return torch.nn.functional.one_hot(is_second, 2).float(), target

    return make
