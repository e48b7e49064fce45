"""Entropies, importance weights, kernels, search scores and moments."""

import math

import pytest
import torch

from rein import ops


def test_target_entropies():
    value = ops.continuous_target_entropy(torch.tensor([-1.0, 0.0]), torch.tensor([1.0, 1.0]), 0.1)
    assert value.item() == pytest.approx(math.log(0.2) + math.log(0.1))
    probs = torch.tensor([0.9, 0.05, 0.05])
    assert ops.discrete_target_entropy(3, 0.1) == pytest.approx(-(probs * probs.log()).sum().item())
    assert ops.discrete_target_entropy(1) == 0.0
    with pytest.raises(ValueError, match="maximum must exceed"):
        ops.continuous_target_entropy(torch.ones(1), torch.ones(1))
    with pytest.raises(ValueError, match="min_prob=1"):
        ops.discrete_target_entropy(3, 1.0)


def test_importance_ratio_and_surrogate():
    new, old = torch.tensor([0.0, -1.0], requires_grad=True), torch.tensor([-1.0, -1.0], requires_grad=True)
    ratio = ops.importance_ratio(new, old)
    torch.testing.assert_close(ratio, torch.tensor([math.e, 1.0]))
    ratio.sum().backward()
    assert old.grad is None
    assert ops.importance_ratio(torch.tensor(0.0), torch.tensor(-500.0), 5.0).item() == pytest.approx(math.exp(5))
    clipped = ops.clipped_surrogate(torch.tensor([2.0, 2.0, 0.5]), torch.tensor([1.0, -1.0, -1.0]), 0.2)
    torch.testing.assert_close(clipped, torch.tensor([1.2, -2.0, -0.8]))


def test_approximate_kl_is_unbiased_and_not_negative():
    torch.manual_seed(0)
    p, q = torch.tensor([0.2, 0.8]), torch.tensor([0.5, 0.5])
    log_ratio = (q / p).log()
    estimate = (p * ops.approximate_kl(log_ratio)).sum()
    torch.testing.assert_close(estimate, (p * (p / q).log()).sum())
    assert (ops.approximate_kl(log_ratio) >= 0).all()


def test_effective_sample_size_bounds():
    assert ops.effective_sample_size(torch.zeros(7) + 1000.0).item() == pytest.approx(7.0)
    assert ops.effective_sample_size(torch.tensor([0.0, -1e4])).item() == pytest.approx(1.0)
    torch.testing.assert_close(ops.self_normalized_weights(torch.tensor([3.0, 3.0])), torch.tensor([0.5, 0.5]))


def test_prioritized_weights_by_hand():
    weight = ops.prioritized_replay_weights(torch.tensor([0.1, 0.4]), 10, 0.5)
    torch.testing.assert_close(weight, torch.tensor([1.0, 0.5]))
    assert ops.prioritized_replay_weights(torch.tensor([0.1, 0.4]), 10, 0.0).tolist() == [1.0, 1.0]


def test_rbf_kernel_gradient_equals_autograd():
    torch.manual_seed(0)
    x, y = torch.randn(5, 3, dtype=torch.float64, requires_grad=True), torch.randn(4, 3, dtype=torch.float64)
    kernel, gradient = ops.rbf_kernel_and_gradient(x, y, bandwidth=1.7)
    torch.testing.assert_close(ops.rbf_kernel(x, y, 1.7).detach(), kernel)
    for m in range(4):
        total = ops.rbf_kernel(x, y, 1.7)[:, m].sum()
        (by_autograd,) = torch.autograd.grad(total, x)
        torch.testing.assert_close(by_autograd.sum(0), gradient[m])


def test_pairwise_distance_of_close_particles_keeps_precision():
    x = torch.tensor([[1000.0], [1000.001]])
    exact = float((x[0].double() - x[1].double()) ** 2)
    assert ops.pairwise_squared_distance(x, x)[0, 1].item() == pytest.approx(exact, rel=1e-5)
    with pytest.raises(ValueError, match=r"\[N, D\]"):
        ops.pairwise_squared_distance(x, torch.zeros(2, 3))


@pytest.mark.parametrize("direction", [ops.svgd_direction, ops.gfsf_direction])
def test_particles_settle_on_a_gaussian(direction):
    torch.manual_seed(0)
    particles = torch.randn(60, 1) * 0.1 + 5.0
    for _ in range(600):
        loss_gradient = (particles - 2.0) / 0.25
        particles = particles - 0.05 * direction(particles, loss_gradient, bandwidth=1.0)
    assert particles.mean().item() == pytest.approx(2.0, abs=0.1)
    assert particles.std().item() == pytest.approx(0.5, abs=0.06)


def test_coinciding_particles_give_finite_directions():
    particles = torch.ones(4, 2)
    assert torch.isfinite(ops.svgd_direction(particles, particles)).all()
    assert torch.isfinite(ops.gfsf_direction(particles, particles)).all()
    assert ops.median_bandwidth(torch.zeros(4, 4)).item() > 0
    x = particles.clone().requires_grad_()
    ops.rbf_kernel(x, x).sum().backward()
    assert torch.isfinite(x.grad).all()


def test_puct_by_hand():
    value, prior = torch.tensor([[0.5, 0.0]]), torch.tensor([[0.25, 0.75]])
    visits, parent = torch.tensor([[3, 0]]), torch.tensor([4])
    weight = 1.25 + math.log((4 + 19652 + 1) / 19652)
    expected = torch.tensor([[0.5 + 0.25 * weight * 2 / 4, 0.75 * weight * 2 / 1]])
    torch.testing.assert_close(ops.puct_score(value, prior, visits, parent), expected)


def test_min_max_normalize():
    low, high = torch.tensor(-1.0), torch.tensor(3.0)
    assert ops.min_max_normalize(torch.tensor(1.0), low, high).item() == 0.5
    assert ops.min_max_normalize(torch.tensor(-0.999), low, low + 0.002, 0.01).item() == pytest.approx(0.1, abs=1e-4)
    # Raw until two different values were seen.
    assert ops.min_max_normalize(low, low, low, 0.01).item() == -1.0
    nothing = torch.tensor(math.inf)
    assert ops.min_max_normalize(torch.tensor(0.7), nothing, -nothing).item() == pytest.approx(0.7)
    with pytest.raises(ValueError, match="min_delta"):
        ops.min_max_normalize(low, low, high, 0.0)


def test_masked_moments_ignore_what_is_masked_even_nan():
    x = torch.tensor([[1.0, float("nan")], [3.0, 5.0]], requires_grad=True)
    mask = torch.tensor([[True, False], [True, True]])
    mean = ops.masked_mean(x, mask)
    assert mean.item() == 3.0
    assert ops.masked_variance(x, mask).item() == pytest.approx(8 / 3)
    assert ops.masked_mean(x, mask, dim=0).tolist() == [2.0, 5.0]
    assert ops.masked_mean(x, torch.zeros(2, 2, dtype=torch.bool)).item() == 0.0
    mean.backward()
    assert torch.isfinite(x.grad).all()


def test_standardize_gives_zero_mean_and_unit_deviation():
    torch.manual_seed(0)
    x = torch.randn(50, 4) * 7 + 100
    mask = torch.rand(50, 4) < 0.5
    y = ops.standardize(x, mask)[mask]
    assert y.mean().item() == pytest.approx(0.0, abs=1e-4)
    assert y.std(correction=0).item() == pytest.approx(1.0, abs=1e-4)
    columns = ops.standardize(x, dim=0)
    torch.testing.assert_close(columns.mean(0), torch.zeros(4), atol=1e-4, rtol=0)


def test_explained_variance_ends():
    torch.manual_seed(0)
    target = torch.randn(20, 3, 2)
    torch.testing.assert_close(ops.explained_variance(target, target), torch.ones(2))
    torch.testing.assert_close(
        ops.explained_variance(target, torch.zeros_like(target)), torch.zeros(2), atol=1e-6, rtol=0
    )
    assert ops.explained_variance(torch.zeros(4, 1), torch.randn(4, 1)).item() == -math.inf
    with pytest.raises(ValueError, match="shapes differ"):
        ops.explained_variance(target, target[:1])


def test_shift_and_delay():
    x = torch.tensor([[1.0, 2.0, 3.0]])
    assert ops.shift(x, 1, dim=1, fill=-1).tolist() == [[-1, 1, 2]]
    assert ops.shift(x, -2, dim=1).tolist() == [[3, 0, 0]]
    assert ops.shift(x, 9, dim=1).tolist() == [[0, 0, 0]]
    assert ops.delay(x, torch.tensor([9.0]), dim=1).tolist() == [[9, 1, 2]]
