"""Weights of stored actions, and priorities of sequences, by hand."""

import math

import pytest
import torch

from rein.ops import exp_advantage_weight, sequence_priority


def test_exp_advantage_weight_is_the_exponential_up_to_a_limit() -> None:
    advantage = torch.tensor([0.0, 1.0, -2.0, 10.0, 1e30, -1e30])
    weights = exp_advantage_weight(advantage, temperature=2.0, max_weight=100.0)
    torch.testing.assert_close(
        weights, torch.tensor([1.0, math.exp(0.5), math.exp(-1.0), 100.0, 100.0, 0.0]), rtol=1e-6, atol=0
    )
    assert weights.max().item() <= 100.0


def test_exp_advantage_weight_has_no_gradient() -> None:
    advantage = torch.ones(3, requires_grad=True)
    assert not exp_advantage_weight(advantage).requires_grad


@pytest.mark.parametrize("arguments", [{"temperature": 0.0}, {"max_weight": 0.0}])
def test_exp_advantage_weight_refuses_what_is_not_positive(arguments: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        exp_advantage_weight(torch.ones(1), **arguments)


def test_sequence_priority_is_the_root_of_the_mean_over_steps_that_count() -> None:
    loss = torch.tensor([[1.0, 4.0], [3.0, 9.0]], requires_grad=True)
    priority = sequence_priority(loss, torch.tensor([[1, 2], [1, 2]]))
    torch.testing.assert_close(priority, torch.tensor([math.sqrt(2.0), 0.0]))
    assert not priority.requires_grad
