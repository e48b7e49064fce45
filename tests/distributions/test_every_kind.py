"""What holds for every distribution: shapes, gradients, moments, entropy, divergence, conversion."""

import copy
import pickle

import pytest
import torch
from torch import Tensor

from rein import distributions as D

F64 = torch.float64


def _t(*values, dtype=F64):
    return torch.tensor(values, dtype=dtype)


LOW, HIGH = _t(-1.0, 0.5), _t(2.0, 3.0)

# name -> (function from raw parameters to a distribution, raw parameters of batch shape [3], event size 2)
CONTINUOUS = {
    "normal": D.DiagNormal,
    "squashed": D.SquashedNormal,
    "squashed_numbers": lambda loc, scale: D.SquashedNormal(loc, scale, -0.3, 2.5),
    "squashed_tensors": lambda loc, scale: D.SquashedNormal(loc, scale, LOW, HIGH),
    "clipped": lambda loc, scale: D.ClippedNormal(loc, scale, LOW, HIGH),
    "truncated": lambda loc, scale: D.TruncatedNormal(loc, scale, LOW, HIGH),
    "beta": lambda loc, scale: D.Beta(loc.abs() + 0.5, scale + 0.7, LOW, HIGH),
}
CHOICES = {
    "categorical": lambda logits: D.Categorical(logits=logits),
    "categorical_probs": lambda logits: D.Categorical(probs=logits.exp()),
    "multi_equal": lambda logits: D.MultiCategorical(logits, (3, 3)),
    "multi_ragged": lambda logits: D.MultiCategorical(logits, (2, 4)),
    "multi_table": lambda logits: D.MultiCategorical(logits.view(*logits.shape[:-1], 2, 3)),
    "one_hot_plain": lambda logits: D.OneHotCategorical(logits=logits),
    "one_hot": lambda logits: D.OneHotCategoricalStraightThrough(logits=logits),
    "one_hot_gumbel": lambda logits: D.OneHotCategoricalGumbelSoftmax(logits=logits, temperature=0.5),
}


def _mixture(logits, loc, scale):
    return D.Mixture(D.Categorical(logits=logits), D.SquashedNormal(loc, scale, LOW, HIGH))


LOC = _t([0.3, -0.8], [1.5, 2.0], [-2.0, 0.1])
SCALE = _t([0.5, 1.2], [0.9, 0.3], [1.5, 0.8])
LOGITS = _t([0.1, -1.0, 0.4, 2.0, 0.0, -0.3], [1.0, 1.0, 1.0, 0.0, 0.0, 0.0], [-3.0, 3.0, 0.2, 0.3, 0.4, 0.5])
MIX_LOGITS = _t([0.2, 1.0, -0.5], [0.0, 0.0, 0.0], [2.0, -1.0, 0.3])
MIX_LOC = torch.stack([LOC, LOC + 0.5, -LOC], 1)
MIX_SCALE = torch.stack([SCALE, SCALE * 0.5, SCALE * 1.5], 1)

CASES = {name: (make, (LOC, SCALE)) for name, make in CONTINUOUS.items()}
CASES |= {name: (make, (LOGITS,)) for name, make in CHOICES.items()}
CASES["mixture"] = (_mixture, (MIX_LOGITS, MIX_LOC, MIX_SCALE))
CASES["deterministic"] = (D.Deterministic, (LOC,))

every_kind = pytest.mark.parametrize("name", CASES)


def build(name: str, *batch: int, dtype=F64) -> D.Distribution:
    make, raw = CASES[name]
    return make(*(tensor.to(dtype).expand(*batch, *tensor.shape) for tensor in raw))


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(7)


@every_kind
@pytest.mark.parametrize("batch", [(), (5,)])
def test_batch_dimensions_are_kept_and_event_dimensions_are_summed(name, batch):
    dist = build(name, *batch)
    shape = torch.Size((*batch, 3))
    assert dist.batch_shape == shape
    sample = dist.sample()
    assert sample.shape == shape + dist.event_shape
    assert dist.mode.shape == sample.shape
    assert dist.mean.shape == dist.stddev.shape == sample.shape
    assert dist.log_prob(sample).shape == shape
    many = dist.sample((4, 2))
    assert many.shape == (4, 2, *sample.shape)
    assert dist.log_prob(many).shape == (4, 2, *shape)
    if name != "mixture":
        assert dist.entropy().shape == shape


@every_kind
def test_sample_has_no_gradient_and_rsample_has_where_promised(name):
    make, raw = CASES[name]
    raw = [tensor.clone().requires_grad_() for tensor in raw]
    dist = make(*raw)
    assert not dist.sample().requires_grad
    assert dist.sample_with_log_prob()[1].requires_grad or name == "deterministic"
    if dist.has_rsample:
        assert dist.rsample().requires_grad
        assert dist.rmode.requires_grad
    else:
        with pytest.raises(NotImplementedError, match="score-function"):
            dist.rsample()
    assert not dist.detach().rmode.requires_grad


@every_kind
def test_mean_and_stddev_match_samples(name):
    dist = build(name)
    samples = dist.sample((60_000,)).to(F64)
    tolerance = 5.0 * dist.stddev / 60_000**0.5 + 1e-6
    assert ((samples.mean(0) - dist.mean).abs() <= tolerance).all()
    torch.testing.assert_close(samples.std(0), dist.stddev, rtol=0.03, atol=5e-3)


@every_kind
def test_entropy_matches_monte_carlo(name):
    dist = build(name)
    log_prob = dist.log_prob(dist.sample((60_000,)))
    entropy, _ = D.entropy_with_fallback(dist) if dist.has_exact_entropy else D.estimated_entropy(dist, 60_000)
    error = 5.0 * log_prob.std(0) / 60_000**0.5 * 1.5 + 1e-9
    assert ((entropy + log_prob.mean(0)).abs() <= error).all()


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("squashed")])
def test_quadrature_entropy_of_squashed_matches_monte_carlo(name):
    dist = build(name)
    log_prob = dist.log_prob(dist.sample((60_000,)))
    assert ((dist.entropy() + log_prob.mean(0)).abs() <= 6.0 * log_prob.std(0) / 60_000**0.5).all()


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("mixture", "deterministic")])
def test_divergence_matches_monte_carlo_and_is_zero_to_itself(name):
    make, raw = CASES[name]
    p = make(*raw)
    shifted = [tensor + 0.2 if tensor is not SCALE else tensor * 1.3 for tensor in raw]
    if len(raw) == 1:
        shifted = [raw[0] * 0.6]
    q = make(*shifted)
    torch.testing.assert_close(D.kl_divergence(p, p), torch.zeros(3, dtype=F64), atol=1e-12, rtol=0.0)
    samples = p.sample((60_000,))
    log_ratio = p.log_prob(samples) - q.log_prob(samples)
    exact = D.kl_divergence(p, q)
    assert (exact >= 0.0).all()
    assert (exact > 0.0).any()
    assert ((exact - log_ratio.mean(0)).abs() <= 5.0 * log_ratio.std(0) / 60_000**0.5).all()


@pytest.mark.parametrize("name", [n for n in CASES if n != "deterministic"])
def test_log_prob_gradient_matches_finite_differences(name):
    make, raw = CASES[name]
    value = make(*raw).sample()
    raw = [tensor.clone().requires_grad_() for tensor in raw]
    assert torch.autograd.gradcheck(lambda *p: make(*p).log_prob(value), raw)


@pytest.mark.parametrize("name", [n for n in CASES if n not in ("deterministic", "mixture")])
def test_entropy_and_divergence_gradients_match_finite_differences(name):
    make, raw = CASES[name]
    other = make(*(tensor * 0.9 for tensor in raw))
    raw = [tensor.clone().requires_grad_() for tensor in raw]
    assert torch.autograd.gradcheck(lambda *p: make(*p).entropy(), raw)
    assert torch.autograd.gradcheck(lambda *p: D.kl_divergence(make(*p), other), raw)


@pytest.mark.parametrize("name", ["normal", "squashed", "squashed_numbers", "squashed_tensors", "truncated", "beta"])
@pytest.mark.parametrize("share", [1e-9, 1e-4, 0.1, 0.5, 0.9, 1.0 - 1e-4, 1.0 - 1e-9])
def test_log_prob_gradient_with_respect_to_value_far_from_and_next_to_the_bounds(name, share):
    dist = build(name)
    low, high = (dist.bounds.low, dist.bounds.high) if name != "normal" else (-30.0, 30.0)
    value = (low + (high - low) * torch.full((3, 2), share, dtype=F64)).requires_grad_()
    # Derivatives grow like 1 / distance: step a thousandth of the distance and compare relatively.
    step = 1e-3 * torch.minimum(value - low, high - value).detach()
    (gradient,) = torch.autograd.grad(dist.log_prob(value).sum(), value)
    for column in range(2):
        mask = torch.zeros_like(step)
        mask[:, column] = step[:, column]
        up, down = value.detach() + mask, value.detach() - mask
        difference = (dist.log_prob(up) - dist.log_prob(down)) / (up - down)[:, column]
        # The last double before a bound is a coarse step at 1e-9 of the width.
        torch.testing.assert_close(gradient[:, column], difference, rtol=2e-4, atol=1e-4)


@pytest.mark.parametrize("name", ["squashed", "squashed_tensors", "clipped", "truncated", "beta"])
@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_log_prob_and_gradient_are_finite_on_the_bounds(name, dtype):
    make, raw = CASES[name]
    raw = [tensor.detach().to(dtype, copy=True).requires_grad_() for tensor in raw]
    dist = make(*raw)
    for bound in (dist.bounds.low, dist.bounds.high):
        value = torch.as_tensor(bound, dtype=dtype).expand(3, 2)
        log_prob = dist.log_prob(value)
        assert torch.isfinite(log_prob).all()
        for gradient in torch.autograd.grad(log_prob.sum(), raw, retain_graph=True):
            assert torch.isfinite(gradient).all()


@pytest.mark.parametrize("name", ["normal", "squashed_tensors", "truncated", "beta", "clipped"])
def test_pathwise_gradient_of_the_mean_is_unbiased(name):
    make, raw = CASES[name]
    raw = [tensor.clone().requires_grad_() for tensor in raw]
    dist = make(*raw)
    exact = torch.autograd.grad((dist.mean + 0.0 * dist.stddev).sum(), raw)
    sampled = torch.autograd.grad(make(*raw).rsample((60_000,)).mean(0).sum(), raw)
    for a, b in zip(exact, sampled, strict=True):
        torch.testing.assert_close(a, b, atol=0.03, rtol=0.03)


@every_kind
def test_parameters_round_trip_exactly(name):
    dist = build(name, 4)
    spec = D.extract_spec(dist, from_dim=2)
    params = D.distributions_to_params(dist)
    assert all(isinstance(leaf, Tensor) for leaf in torch.utils._pytree.tree_leaves(params))
    again = D.params_to_distributions(params, spec)
    assert type(again) is type(dist)
    assert again.recipe == dist.recipe
    value = dist.sample((6,)).clone()
    assert torch.equal(again.log_prob(value), dist.log_prob(value))
    assert torch.equal(again.mode, dist.mode)
    torch.manual_seed(1)
    first = dist.sample()
    torch.manual_seed(1)
    assert torch.equal(first, again.sample())


@every_kind
def test_indexing_takes_a_part_of_the_batch(name):
    dist = build(name, 4)
    value = dist.sample().clone()
    whole = dist.log_prob(value)
    assert torch.equal(dist[1].log_prob(value[1]), whole[1])
    assert torch.equal(dist[:, 2].log_prob(value[:, 2]), whole[:, 2])
    mask = torch.tensor([True, False, True, True])
    assert torch.equal(dist[mask].log_prob(value[mask]), whole[mask])


@every_kind
def test_copies_and_pickles_behave_the_same(name):
    dist = build(name)
    value = dist.sample().clone()
    for other in (copy.deepcopy(dist), pickle.loads(pickle.dumps(dist))):
        assert torch.equal(other.log_prob(value), dist.log_prob(value))


@pytest.mark.parametrize("name", ["normal", "squashed", "squashed_numbers", "deterministic", *CHOICES])
@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_dtype_of_the_parameters_is_kept(name, dtype):
    dist = build(name, dtype=dtype)
    sample = dist.sample()
    assert sample.dtype == (torch.int64 if "categorical" in name or "multi" in name else dtype)
    if name != "deterministic":
        assert dist.log_prob(sample).dtype == dtype
