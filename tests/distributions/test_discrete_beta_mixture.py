"""Choices, beta and mixtures against hand-computed values."""

import math

import pytest
import scipy.stats
import torch

from rein import distributions as D

F64 = torch.float64
INF = math.inf


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(5)


def test_categorical_by_hand():
    dist = D.Categorical(probs=torch.tensor([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]], dtype=F64))
    torch.testing.assert_close(dist.log_prob(torch.tensor([1, 0])).exp(), torch.tensor([0.25, 1.0], dtype=F64))
    torch.testing.assert_close(dist.entropy(), torch.tensor([1.5 * math.log(2.0), 0.0], dtype=F64))
    assert dist.mode.tolist() == [0, 0]


def test_categorical_needs_exactly_one_parameter():
    with pytest.raises(ValueError, match="not both"):
        D.Categorical(logits=torch.zeros(2), probs=torch.ones(2))
    with pytest.raises(ValueError, match="needs logits or probs"):
        D.Categorical()


def test_categorical_sampling_frequencies():
    logits = torch.tensor([0.0, 1.0, 2.0, -INF])
    counts = torch.bincount(D.Categorical(logits=logits).sample((60_000,)), minlength=4) / 60_000
    torch.testing.assert_close(counts, torch.softmax(logits, -1), atol=0.01, rtol=0.0)
    assert counts[3] == 0


def test_categorical_is_right_for_large_logits():
    dist = D.Categorical(logits=torch.tensor([1e4, 1e4, -1e4]))
    counts = torch.bincount(dist.sample((10_000,)), minlength=3)
    assert counts[2] == 0
    assert 4500 < counts[0] < 5500


def test_forbidden_choices_have_finite_entropy_divergence_and_gradient():
    logits = torch.tensor([[0.5, -INF, 1.0]], dtype=F64, requires_grad=True)
    dist = D.Categorical(logits=logits)
    other = D.Categorical(logits=torch.tensor([[0.0, -INF, 0.0]], dtype=F64))
    total = dist.entropy() + D.kl_divergence(dist, other) + dist.log_prob(torch.tensor([2]))
    (gradient,) = torch.autograd.grad(total.sum(), logits)
    assert torch.isfinite(total).all()
    assert torch.isfinite(gradient).all()
    assert gradient[0, 1] == 0.0
    one_hot = D.OneHotCategoricalStraightThrough(logits=logits)
    assert torch.isfinite(one_hot.log_prob(one_hot.sample())).all()


def test_divergence_is_infinite_where_the_second_forbids():
    p = D.Categorical(probs=torch.tensor([0.5, 0.5]))
    q = D.Categorical(probs=torch.tensor([1.0, 0.0]))
    assert D.kl_divergence(p, q).item() == INF
    assert D.kl_divergence(q, p).item() == pytest.approx(math.log(2.0))


def test_log_probs_computed_without_gradient_are_not_reused_with_gradient():
    logits = torch.zeros(3, requires_grad=True)
    dist = D.Categorical(logits=logits)
    with torch.no_grad():
        dist.entropy()
    assert dist.log_prob(torch.tensor(1)).requires_grad


def test_multi_categorical_ragged_equals_separate_categoricals():
    logits = torch.randn(4, 9, dtype=F64)
    dist = D.MultiCategorical(logits, (2, 4, 3))
    parts = [D.Categorical(logits=part) for part in logits.split([2, 4, 3], -1)]
    value = dist.sample((100,))
    assert (value.amax((0, 1)) <= torch.tensor([1, 3, 2])).all()
    expected = sum(part.log_prob(value[..., i]) for i, part in enumerate(parts))
    torch.testing.assert_close(dist.log_prob(value), expected)
    torch.testing.assert_close(dist.entropy(), sum(part.entropy() for part in parts))
    assert torch.equal(dist.mode, torch.stack([part.mode for part in parts], -1))


def test_multi_categorical_refuses_logits_of_another_size():
    with pytest.raises(ValueError, match=r"sum\(nvec\)=5"):
        D.MultiCategorical(torch.zeros(2, 6), (2, 3))


@pytest.mark.parametrize("make", [D.OneHotCategoricalStraightThrough, D.OneHotCategoricalGumbelSoftmax])
def test_one_hot_rsample_is_one_hot_with_gradient(make):
    logits = torch.randn(50, 4, requires_grad=True)
    sample = make(logits=logits).rsample()
    torch.testing.assert_close(sample.sum(-1), torch.ones(50))
    assert set(sample.detach().round(decimals=5).flatten().tolist()) == {0.0, 1.0}
    (gradient,) = torch.autograd.grad((sample * torch.arange(4.0)).sum(), logits)
    assert (gradient != 0.0).all()


def test_straight_through_gradient_is_that_of_the_probabilities():
    logits = torch.randn(5, 3, dtype=F64, requires_grad=True)
    weight = torch.randn(3, dtype=F64)
    (through,) = torch.autograd.grad((D.OneHotCategoricalStraightThrough(logits).rsample() * weight).sum(), logits)
    (expected,) = torch.autograd.grad((torch.softmax(logits, -1) * weight).sum(), logits)
    torch.testing.assert_close(through, expected)


def test_soft_gumbel_samples_are_relaxed():
    sample = D.OneHotCategoricalGumbelSoftmax(logits=torch.zeros(10, 3), temperature=1.0, hard=False).rsample()
    torch.testing.assert_close(sample.sum(-1), torch.ones(10))
    assert ((sample > 0.0) & (sample < 1.0)).all()


def test_beta_matches_scipy():
    dist = D.Beta(torch.tensor([2.0, 0.5], dtype=F64), torch.tensor([3.0, 0.7], dtype=F64), -1.0, 3.0)
    value = torch.tensor([0.3, 2.9], dtype=F64)
    references = [scipy.stats.beta(2.0, 3.0, loc=-1.0, scale=4.0), scipy.stats.beta(0.5, 0.7, loc=-1.0, scale=4.0)]
    expected = references[0].logpdf(0.3) + references[1].logpdf(2.9)
    assert dist.log_prob(value).item() == pytest.approx(expected)
    assert dist.entropy().item() == pytest.approx(sum(float(r.entropy()) for r in references))


@pytest.mark.parametrize("concentration", [(0.02, 0.03), (1.0, 1.0), (30.0, 2.0), (1e-3, 5.0)])
def test_beta_samples_follow_the_distribution_even_for_tiny_concentrations(concentration):
    c1, c0 = concentration
    dist = D.Beta(torch.tensor([c1], dtype=F64), torch.tensor([c0], dtype=F64))
    samples = dist.sample((4000,)).flatten()
    assert torch.isfinite(samples).all()
    for edge in (0.001, 0.3, 0.5, 0.9, 0.999):
        expected = scipy.stats.beta(c1, c0).cdf(edge)
        assert (samples <= edge).double().mean().item() == pytest.approx(expected, abs=0.04)


def test_beta_mode_by_shape_of_the_density():
    c1 = torch.tensor([3.0, 0.5, 2.0, 1.0, 0.4, 0.9])
    c0 = torch.tensor([2.0, 2.0, 0.5, 1.0, 0.6, 0.3])
    mode = D.Beta(c1, c0, -1.0, 1.0, event_ndims=0).mode
    torch.testing.assert_close(mode, torch.tensor([2.0 / 3.0 * 2.0 - 1.0, -1.0, 1.0, 0.0, -1.0, 1.0]))


def test_mixture_by_hand():
    component = D.DiagNormal(torch.tensor([[[0.0], [4.0]]], dtype=F64), torch.tensor([[[1.0], [2.0]]], dtype=F64))
    dist = D.Mixture(D.Categorical(probs=torch.tensor([[0.25, 0.75]], dtype=F64)), component)
    density = 0.25 * scipy.stats.norm(0.0, 1.0).pdf(1.0) + 0.75 * scipy.stats.norm(4.0, 2.0).pdf(1.0)
    assert dist.log_prob(torch.tensor([[1.0]], dtype=F64)).item() == pytest.approx(math.log(density))
    assert dist.mean.item() == pytest.approx(3.0)
    assert dist.stddev.item() == pytest.approx(math.sqrt(0.25 * (1.0 + 9.0) + 0.75 * (4.0 + 1.0)))
    assert dist.mode.item() == 4.0
    with pytest.raises(NotImplementedError, match="estimated_entropy"):
        dist.entropy()


def test_deterministic_is_certain():
    dist = D.Deterministic(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    value = torch.tensor([[1.0, 2.0], [3.0, 4.5]])
    assert dist.log_prob(value).tolist() == [0.0, -INF]
    assert dist.entropy().tolist() == [0.0, 0.0]
    assert torch.equal(dist.sample(), dist.loc)
    same = D.kl_divergence(dist, D.Deterministic(value))
    assert same.tolist() == [0.0, INF]
