import copy
import math

import pytest
import torch
from torch import nn

from rein.optimizers import RMSpropTF


def test_two_steps_by_hand() -> None:
    parameter = nn.Parameter(torch.tensor([1.0]))
    optimizer = RMSpropTF(lr=0.1, alpha=0.9, eps=0.5)
    optimizer.add_param_group({"params": [parameter]})
    square, value = 1.0, 1.0
    for gradient in (2.0, -1.0):
        parameter.grad = torch.tensor([gradient])
        optimizer.step()
        square = 0.9 * square + 0.1 * gradient**2
        value -= 0.1 * gradient / math.sqrt(square + 0.5)
        assert parameter.item() == pytest.approx(value, rel=1e-6)


def test_state_goes_on_exactly_and_copies_are_fresh() -> None:
    def stepped(optimizer: RMSpropTF, parameter: nn.Parameter, gradient: float) -> float:
        parameter.grad = torch.tensor([gradient])
        optimizer.step()
        return parameter.item()

    first, second = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    one = RMSpropTF(lr=0.1, weight_decay=0.01)
    one.add_param_group({"params": [first]})
    stepped(one, first, 3.0)
    other = one.copy()
    assert other.parameters() == []
    other.add_param_group({"params": [second]})
    other.load_state_dict(copy.deepcopy(one.state_dict()))
    with torch.no_grad():
        second.copy_(first)
    assert stepped(one, first, -1.0) == stepped(other, second, -1.0)
