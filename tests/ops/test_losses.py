"""Element-wise losses against hand-computed numbers."""

import pytest
import torch

from rein import ops


def test_squared_and_huber_loss_by_hand():
    x, y = torch.tensor([0.0, 0.5, 3.0]), torch.zeros(3)
    torch.testing.assert_close(ops.element_wise_squared_loss(x, y), torch.tensor([0.0, 0.25, 9.0]))
    torch.testing.assert_close(ops.element_wise_huber_loss(x, y), torch.tensor([0.0, 0.125, 2.5]))
    torch.testing.assert_close(ops.huber_function(-x, delta=2.0), torch.tensor([0.0, 0.125, 4.0]))


def test_huber_rejects_a_delta_that_is_not_positive():
    with pytest.raises(ValueError, match=r"delta.*0"):
        ops.huber_function(torch.zeros(1), delta=0.0)


def test_expectile_loss_weighs_signs():
    torch.testing.assert_close(ops.expectile_loss(torch.tensor([2.0, -2.0]), 0.9), torch.tensor([3.6, 0.4]))
    with pytest.raises(ValueError, match="expectile"):
        ops.expectile_loss(torch.zeros(1), 1.0)


def test_quantile_huber_loss_by_hand():
    quantile, target = torch.tensor([[0.0, 1.0]]), torch.tensor([[3.0]])
    # errors 3 and 2: huber 2.5 and 1.5, both below the target, so weights are the levels
    loss = ops.quantile_huber_loss(quantile, target, torch.tensor([0.25, 0.75]))
    torch.testing.assert_close(loss, torch.tensor([(0.25 * 2.5 + 0.75 * 1.5) / 2]))
    summed = ops.quantile_huber_loss(quantile, target, torch.tensor([0.25, 0.75]), sum_over_quantiles=True)
    torch.testing.assert_close(summed, 2 * loss)


def test_quantile_huber_loss_equals_a_double_loop():
    torch.manual_seed(0)
    quantile, target, level = torch.randn(4, 3), torch.randn(4, 5), torch.rand(4, 3)
    expected = torch.zeros(4)
    for b in range(4):
        for i in range(3):
            for j in range(5):
                error = target[b, j] - quantile[b, i]
                weight = abs(level[b, i] - float(error < 0))
                huber = 0.5 * error**2 if abs(error) <= 1 else abs(error) - 0.5
                expected[b] += weight * huber / 15
    torch.testing.assert_close(ops.quantile_huber_loss(quantile, target, level), expected)


def test_minimizing_quantile_loss_finds_the_quantiles():
    torch.manual_seed(0)
    samples = torch.randn(4000)
    level = ops.quantile_midpoints(5)
    quantile = torch.zeros(5, requires_grad=True)
    optimizer = torch.optim.Adam([quantile], lr=0.05)
    for _ in range(300):
        loss = ops.quantile_huber_loss(quantile, samples, level, huber_fn=torch.abs)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.testing.assert_close(quantile.detach(), samples.quantile(level), atol=0.08, rtol=0)


def test_quantile_loss_gives_no_gradient_to_targets():
    target = torch.randn(2, 3, requires_grad=True)
    quantile = torch.randn(2, 3, requires_grad=True)
    ops.quantile_huber_loss(quantile, target, ops.quantile_midpoints(3)).sum().backward()
    assert target.grad is None
    assert quantile.grad is not None
    with pytest.raises(ValueError, match="last dimension"):
        ops.quantile_huber_loss(quantile, target[:1], ops.quantile_midpoints(3))


def test_quantile_midpoints():
    assert ops.quantile_midpoints(2).tolist() == [0.25, 0.75]
    with pytest.raises(ValueError, match="num_quantiles"):
        ops.quantile_midpoints(0)
