import math

import pytest
import torch
from torch.distributions import Categorical, Normal, kl_divergence

from rein.ops import (
    categorical_kl,
    code_perplexity,
    nearest_code,
    residual_gaussian_kl,
    standard_normal_kl,
    straight_through,
)


def test_kl_to_a_standard_normal_by_hand():
    mean, log_variance = torch.tensor([[1.0, 2.0], [0.0, 0.0]]), torch.tensor([[0.0, math.log(2)], [0.0, 0.0]])
    # (1 + 1 - 1 - 0) / 2 and (4 + 2 - 1 - log 2) / 2
    expected = [0.5 + 0.5 * (5 - math.log(2)), 0.0]
    assert standard_normal_kl(mean, log_variance).tolist() == pytest.approx(expected)


def test_gaussian_kls_are_those_of_torch():
    mean, log_variance, prior_mean, prior_log_variance = torch.randn(4, 7, 5, dtype=torch.float64)
    standard = kl_divergence(Normal(mean, (log_variance / 2).exp()), Normal(0.0, 1.0)).sum(-1)
    torch.testing.assert_close(standard_normal_kl(mean, log_variance), standard, rtol=0, atol=1e-6)
    first = Normal(prior_mean + mean, ((prior_log_variance + log_variance) / 2).exp())
    second = Normal(prior_mean, (prior_log_variance / 2).exp())
    given = residual_gaussian_kl(mean, log_variance, prior_log_variance)
    torch.testing.assert_close(given, kl_divergence(first, second).sum(-1), rtol=0, atol=1e-6)
    zero = torch.zeros(2, 3)
    assert (residual_gaussian_kl(zero, zero, torch.randn(2, 3)) == 0).all()


def test_categorical_kl_is_that_of_torch_and_ends_at_log_k():
    logits, prior = torch.randn(2, 6, 4, dtype=torch.float64)
    expected = kl_divergence(Categorical(logits=logits), Categorical(logits=prior))
    torch.testing.assert_close(categorical_kl(logits, prior), expected)
    uniform = kl_divergence(Categorical(logits=logits), Categorical(logits=torch.zeros_like(logits)))
    torch.testing.assert_close(categorical_kl(logits), uniform)
    certain = torch.tensor([[50.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    assert categorical_kl(certain).tolist() == pytest.approx([math.log(4), 0.0], abs=1e-6)


def test_the_nearest_code_is_that_of_all_distances():
    x, codebook = torch.randn(3, 5, 4, dtype=torch.float64), torch.randn(9, 4, dtype=torch.float64)
    distance = (x.unsqueeze(-2) - codebook).square().sum(-1)
    assert torch.equal(nearest_code(x, codebook), distance.argmin(-1))
    assert nearest_code(torch.zeros(1, 1), torch.tensor([[1.0], [-1.0]])).tolist() == [0]  # the first of two


def test_perplexity_counts_codes_by_their_share():
    assert code_perplexity(torch.tensor([[0, 1], [2, 3]]), 8).item() == pytest.approx(4.0)
    assert code_perplexity(torch.tensor([5, 5, 5]), 8).item() == pytest.approx(1.0)
    # shares 3/4 and 1/4
    expected = math.exp(-0.75 * math.log(0.75) - 0.25 * math.log(0.25))
    assert code_perplexity(torch.tensor([0, 0, 0, 1]), 2).item() == pytest.approx(expected)


def test_straight_through_has_the_value_of_one_and_the_gradient_of_the_other():
    value, surrogate = torch.tensor([1.0, 0.1], requires_grad=True), torch.tensor([0.3, 1e8], requires_grad=True)
    result = straight_through(value, surrogate)
    assert torch.equal(result, value)
    (result * torch.tensor([2.0, 5.0])).sum().backward()
    assert surrogate.grad.tolist() == [2.0, 5.0]
    assert value.grad is None
