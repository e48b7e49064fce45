"""Kernels and particle directions, against loops, autograd and solutions by hand."""

import math

import pytest
import torch
from torch import Tensor

from rein import ops
from rein.ops import kernels

DOUBLE = torch.float64


def kernel(a: Tensor, b: Tensor, width: float) -> Tensor:
    return torch.exp(-((a - b) ** 2).sum() / width)


def kernel_gradient(a: Tensor, b: Tensor, width: float) -> Tensor:
    """By the first argument, with autograd."""
    point = a.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(kernel(point, b, width), point)
    return gradient


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=DOUBLE)


def test_the_width_is_the_median_over_the_logarithm_with_guards() -> None:
    squared = torch.tensor([[0.0, 9.0, 4.0], [9.0, 0.0, 1.0], [4.0, 1.0, 0.0]])
    assert ops.median_bandwidth(squared).item() == pytest.approx(1.0 / math.log(3))
    assert ops.median_bandwidth(squared, 9).item() == pytest.approx(1.0 / math.log(9))
    assert ops.median_bandwidth(torch.full((1, 1), 4.0)).item() == 4.0
    assert ops.median_bandwidth(torch.zeros(3, 3)).item() == 1.0


def test_distances_by_a_matrix_product_equal_those_by_differences(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(7, 30) + 100.0, torch.randn(5, 30) + 100.0
    exact = ((x.double().unsqueeze(1) - y.double()) ** 2).sum(-1)
    torch.testing.assert_close(ops.pairwise_squared_distance(x, y).double(), exact, rtol=1e-5, atol=1e-5)
    monkeypatch.setattr(kernels, "_MAX_DIFFERENCES", 0)
    torch.testing.assert_close(ops.pairwise_squared_distance(x, y).double(), exact, rtol=1e-4, atol=1e-4)
    assert (ops.pairwise_squared_distance(x, x).diagonal() >= 0).all()


def test_kernel_derivatives_equal_autograd() -> None:
    torch.manual_seed(0)
    x, y, width = draw(4, 3), draw(5, 3), 1.3
    values, total = ops.rbf_kernel_and_gradient(x, y, width)
    every = ops.rbf_kernel_gradients(x, y, values, width)
    for i in range(4):
        for j in range(5):
            torch.testing.assert_close(values[i, j], kernel(x[i], y[j], width))
            torch.testing.assert_close(every[i, j], kernel_gradient(x[i], y[j], width))
    torch.testing.assert_close(every.sum(0), total)
    paired, gradient = ops.paired_rbf_kernel_and_gradient(x, y[:4], width)
    for i in range(4):
        torch.testing.assert_close(paired[i], kernel(x[i], y[i], width))
        torch.testing.assert_close(gradient[i], kernel_gradient(x[i], y[i], width))


@pytest.mark.parametrize("max_differences", [0, 1 << 18])
def test_kernel_derivatives_of_one_set_of_particles_are_exact_far_from_the_origin(
    max_differences: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "_MAX_DIFFERENCES", max_differences)
    torch.manual_seed(0)
    near = draw(6, 3)
    values, total = ops.rbf_kernel_and_gradient((x := (near + 1000.0).float()), x, 1.3)
    for j in range(6):
        sums = torch.stack([kernel_gradient(x[i].double(), x[j].double(), 1.3) for i in range(6)]).sum(0)
        torch.testing.assert_close(total[j].double(), sums, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(values.diagonal(), torch.ones(6))


def test_the_width_may_be_chosen_by_the_squared_distances() -> None:
    torch.manual_seed(0)
    x, y = draw(4, 3), draw(5, 3)
    squared = ops.pairwise_squared_distance(x, y)
    chosen = ops.rbf_kernel_and_gradient(x, y, lambda seen: 2.0 * seen.mean())
    given = ops.rbf_kernel_and_gradient(x, y, 2.0 * squared.mean())
    torch.testing.assert_close(chosen, given)


def test_svgd_equals_a_double_loop() -> None:
    torch.manual_seed(0)
    x, others, gradient, width, weight = draw(4, 3), draw(6, 3), draw(6, 3), 0.7, 0.4
    direction = ops.svgd_direction(x, gradient, weight, width, others)
    for j in range(4):
        terms = [
            kernel(others[i], x[j], width) * gradient[i] - weight * kernel_gradient(others[i], x[j], width)
            for i in range(6)
        ]
        torch.testing.assert_close(direction[j], torch.stack(terms).mean(0))


@pytest.mark.parametrize("size", [2, 7], ids=["shorter than many", "longer"])
def test_gfsf_equals_a_double_loop(size: int) -> None:
    torch.manual_seed(0)
    x, gradient, width, weight, ridge = draw(4, size), draw(4, size), 0.9 * size, 0.3, 0.05
    gram = torch.stack([torch.stack([kernel(a, b, width) for b in x]) for a in x])
    sums = torch.stack([sum(kernel_gradient(a, b, width) for a in x) for b in x])  # type: ignore[misc]
    score = -torch.linalg.inv(gram + ridge * torch.eye(4, dtype=DOUBLE)) @ sums
    torch.testing.assert_close(ops.smoothed_score(x, width, ridge), score)
    torch.testing.assert_close(ops.gfsf_direction(x, gradient, weight, width, ridge), gradient + weight * score)


def test_identical_particles_without_entropy_descend_the_gradient() -> None:
    x, gradient = torch.ones(5, 2), torch.full((5, 2), 3.0)
    torch.testing.assert_close(ops.svgd_direction(x, gradient, 0.0), gradient)
    torch.testing.assert_close(ops.gfsf_direction(x, gradient, 0.0), gradient)


def test_two_particles_repel_along_their_line() -> None:
    x = torch.tensor([[0.0, 0.0], [0.6, 0.8]])  # the median distance is 0, the width 1
    for direction in (ops.svgd_direction(x, torch.zeros(2, 2)), ops.gfsf_direction(x, torch.zeros(2, 2))):
        step = -direction  # descent moves against g
        along = torch.tensor([0.6, 0.8])
        assert float(step[0] @ along) < 0 < float(step[1] @ along)
        torch.testing.assert_close(step[1] - (step[1] @ along) * along, torch.zeros(2), atol=1e-5, rtol=0)
        torch.testing.assert_close(step[0], -step[1])


def test_the_trace_is_exact_for_unit_vectors_and_carries_gradient() -> None:
    torch.manual_seed(0)
    matrix = draw(3, 3).requires_grad_()
    x = draw(4, 3).requires_grad_()
    traces = [ops.hutchinson_trace(x @ matrix.t(), x, torch.eye(3, dtype=DOUBLE)[[d] * 4]) for d in range(3)]
    torch.testing.assert_close(sum(traces), matrix.trace().expand(4))
    sum(t.sum() for t in traces).backward()
    torch.testing.assert_close(matrix.grad, 4 * torch.eye(3, dtype=DOUBLE))


def test_the_critic_of_a_gaussian_has_the_optimum_of_the_paper() -> None:
    """Particles from N(0, I), E = |x|^2 / 8: with f = c x the best c is -(1/4 - 1) / (2 l2)."""
    torch.manual_seed(0)
    x, l2 = torch.randn(200_000, 2, dtype=DOUBLE), 5.0
    factor = torch.tensor(0.3, dtype=DOUBLE, requires_grad=True)
    trace = (2 * factor).expand(len(x))
    ops.fisher_critic_loss(factor * x, trace, x / 4, 1.0, l2).backward()
    assert factor.grad is not None
    # d/dc of c E|x|^2 / 4 - 2 c + l2 c^2 E|x|^2, with E|x|^2 = 2
    assert factor.grad.item() == pytest.approx(0.5 - 2.0 + 2 * l2 * 0.3 * 2, abs=0.05)
    best = -(0.25 - 1.0) / (2 * l2)
    assert 0.5 - 2.0 + 2 * l2 * best * 2 == pytest.approx(0.0)


def test_solutions_with_a_jacobian_and_with_its_blocks_are_equal() -> None:
    torch.manual_seed(0)
    head, tail, diagonal = 3, 4, torch.tensor(0.7, dtype=DOUBLE)
    blocks, lower = draw(5, head, head), draw(5, tail, head)
    jacobian = torch.zeros(5, 7, 7, dtype=DOUBLE)
    jacobian[:, :head, :head], jacobian[:, head:, :head] = blocks, lower
    jacobian += diagonal * torch.eye(7, dtype=DOUBLE)
    vectors = draw(5, 6, 7)
    solved = ops.solve_jacobian(jacobian, vectors)
    torch.testing.assert_close(solved @ jacobian, vectors)
    upper = blocks + diagonal * torch.eye(head, dtype=DOUBLE)
    by_blocks = ops.solve_block_jacobian(upper, vectors[..., head:] @ lower, vectors, diagonal)
    torch.testing.assert_close(by_blocks, solved, rtol=1e-8, atol=1e-8)
