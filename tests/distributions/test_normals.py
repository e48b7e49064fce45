"""Normals, squashed, clipped and truncated, against hand-computed values and scipy."""

import math

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rein import distributions as D
from rein.distributions.normal_interval import inverse_log_ndtr, log_interval_mass
from rein.specs import BoundedTensorSpec

F64 = torch.float64


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(3)


def test_diag_normal_by_hand():
    dist = D.DiagNormal(torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 2.0]]))
    value = torch.tensor([[1.0, 5.0]])
    # -1/2 - 2 - log 2 - log(2 pi)
    assert dist.log_prob(value).item() == pytest.approx(-2.5 - math.log(2.0) - math.log(2.0 * math.pi))
    assert dist.entropy().item() == pytest.approx(1.0 + math.log(2.0) + math.log(2.0 * math.pi))


def test_scale_may_be_a_number_or_shared_by_the_batch():
    loc = torch.zeros(4, 2)
    expected = D.DiagNormal(loc, torch.full((4, 2), 0.5)).log_prob(torch.ones(4, 2))
    assert torch.equal(D.DiagNormal(loc, 0.5).log_prob(torch.ones(4, 2)), expected)
    shared = D.DiagNormal(loc, torch.tensor([0.5, 0.5]))
    assert torch.equal(shared.log_prob(torch.ones(4, 2)), expected)
    assert shared.params["scale"].shape == (4, 2)


@pytest.mark.parametrize(("event_ndims", "shape"), [(0, (4, 2, 3)), (1, (4, 2)), (2, (4,))])
def test_event_ndims_decide_what_is_summed(event_ndims, shape):
    loc = torch.randn(4, 2, 3)
    for make in (D.DiagNormal, D.SquashedNormal, D.ClippedNormal, D.TruncatedNormal):
        dist = make(loc, 1.0, event_ndims=event_ndims)
        assert dist.log_prob(dist.sample()).shape == shape
        assert dist.entropy().shape == shape
        elementwise = make(loc, 1.0, event_ndims=0).entropy()
        dims = tuple(range(3 - event_ndims, 3))
        torch.testing.assert_close(dist.entropy(), elementwise.sum(dims) if dims else elementwise)


def test_squashed_density_by_change_of_variables():
    dist = D.SquashedNormal(torch.tensor([0.2], dtype=F64), torch.tensor([0.7], dtype=F64), -1.0, 3.0)
    u = 0.9
    value = torch.tensor([1.0 + 2.0 * math.tanh(u)], dtype=F64)
    density = scipy.stats.norm(0.2, 0.7).logpdf(u) - math.log(2.0 * (1.0 - math.tanh(u) ** 2))
    assert dist.log_prob(value).item() == pytest.approx(density, abs=1e-12)
    assert dist.mode.item() == pytest.approx(1.0 + 2.0 * math.tanh(0.2))


def test_squashed_density_integrates_to_one():
    dist = D.SquashedNormal(torch.tensor([0.5], dtype=F64), torch.tensor([0.8], dtype=F64), -2.0, 1.0)
    grid = torch.linspace(-2.0, 1.0, 200_001, dtype=F64).unsqueeze(-1)
    assert torch.trapezoid(dist.log_prob(grid).exp(), grid[:, 0]).item() == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("loc", [-30.0, -9.5, 0.0, 9.5, 30.0])
def test_squashed_sample_keeps_an_exact_log_prob_when_tanh_has_saturated(loc):
    dist = D.SquashedNormal(torch.full((1000, 1), loc), 1.0)
    value, direct = dist.rsample_with_log_prob()
    remembered = dist.log_prob(dist.sample())
    assert torch.isfinite(direct).all()
    # log N(u) - log(1 - tanh^2 u) with 1 - tanh^2 u = 4 e^-2|u| far out
    expected = -0.5 - 0.5 * math.log(2.0 * math.pi) + 2.0 * (abs(loc) - math.log(2.0))
    if abs(loc) > 5.0:
        assert value.abs().max() <= 1.0
        assert direct.mean().item() == pytest.approx(expected, abs=0.4)
        assert remembered.mean().item() == pytest.approx(expected, abs=0.4)


def test_squashed_log_prob_of_a_stored_copy_agrees_with_that_of_the_sample():
    dist = D.SquashedNormal(torch.randn(2000, 2), 0.8, torch.tensor([-1.0, 0.0]), torch.tensor([1.0, 10.0]))
    value = dist.sample()
    inside = (dist.base.stddev < 5) & (value > dist.bounds.low + 1e-3) & (value < dist.bounds.high - 1e-3)
    rows = inside.all(-1)
    assert rows.sum() > 1500
    torch.testing.assert_close(dist.log_prob(value)[rows], dist.log_prob(value.clone())[rows], atol=2e-3, rtol=1e-4)


def test_squashed_forgets_the_pre_image_of_a_sample_that_was_overwritten():
    dist = D.SquashedNormal(torch.zeros(3, 2), 1.0)
    value = dist.sample()
    value[1] = 0.25
    assert torch.equal(dist.log_prob(value), dist.log_prob(value.clone()))


def test_squashed_pre_image_is_not_used_for_another_tensor():
    dist = D.SquashedNormal(torch.zeros(3, 2), 1.0)
    first = dist.sample().clone()
    dist.sample()
    torch.testing.assert_close(dist.log_prob(first), D.SquashedNormal(torch.zeros(3, 2), 1.0).log_prob(first))


def test_squashed_gradient_through_remembered_sample_equals_that_through_the_value():
    def gradients(clone):
        torch.manual_seed(0)
        loc = torch.tensor([[0.3, -1.0]], dtype=F64, requires_grad=True)
        scale = torch.tensor([[0.5, 0.9]], dtype=F64, requires_grad=True)
        dist = D.SquashedNormal(loc, scale, -2.0, 2.0)
        value = dist.rsample()
        return torch.autograd.grad(dist.log_prob(value.clone() if clone else value).sum(), (loc, scale))

    for a, b in zip(gradients(True), gradients(False), strict=True):
        torch.testing.assert_close(a, b)


def test_squashed_works_in_inference_mode():
    with torch.inference_mode():
        dist = D.SquashedNormal(torch.zeros(3, 2), 1.0)
        assert torch.isfinite(dist.log_prob(dist.sample())).all()


@pytest.mark.parametrize("low_high", [(-0.3, 0.1), (0.1, 0.7), (-1e-3, 1e3)])
def test_squashed_samples_never_leave_the_bounds(low_high):
    low, high = low_high
    for bounds in (low_high, (torch.tensor([low]), torch.tensor([high]))):
        dist = D.SquashedNormal(torch.linspace(-20.0, 20.0, 500).unsqueeze(-1), 3.0, *bounds)
        sample = dist.sample()
        assert (sample >= torch.tensor(low)).all()
        assert (sample <= torch.tensor(high)).all()


def test_clipped_puts_mass_on_the_bounds():
    dist = D.ClippedNormal(torch.tensor([[0.5]], dtype=F64), torch.tensor([[1.0]], dtype=F64), -1.0, 1.0)
    normal = scipy.stats.norm(0.5, 1.0)
    assert dist.log_prob(torch.tensor([[-1.0]], dtype=F64)).item() == pytest.approx(normal.logcdf(-1.0))
    assert dist.log_prob(torch.tensor([[1.0]], dtype=F64)).item() == pytest.approx(normal.logsf(1.0))
    assert dist.log_prob(torch.tensor([[0.2]], dtype=F64)).item() == pytest.approx(normal.logpdf(0.2))
    samples = dist.sample((40_000,))
    assert (samples == -1.0).double().mean().item() == pytest.approx(normal.cdf(-1.0), abs=0.01)
    assert (samples == 1.0).double().mean().item() == pytest.approx(normal.sf(1.0), abs=0.01)


@pytest.mark.parametrize(
    ("loc", "scale", "low", "high"),
    [
        (0.0, 1.0, -1.0, 1.0),
        (5.0, 0.3, -1.0, 1.0),
        (-40.0, 1.0, 0.0, 3.0),
        (0.0, 1e4, -1.0, 1.0),
        (2.0, 0.1, -1.0, 1.0),
    ],
)
def test_truncated_matches_scipy_in_the_tails_and_on_narrow_intervals(loc, scale, low, high):
    reference = scipy.stats.truncnorm((low - loc) / scale, (high - loc) / scale, loc, scale)
    dist = D.TruncatedNormal(torch.tensor([loc], dtype=F64), torch.tensor([scale], dtype=F64), low, high)
    grid = np.linspace(low, high, 7)
    ours = dist.log_prob(torch.tensor(grid, dtype=F64).unsqueeze(-1)).numpy()
    np.testing.assert_allclose(ours, reference.logpdf(grid), rtol=1e-6, atol=1e-7)
    samples = dist.sample((4000,)).flatten().numpy()
    assert scipy.stats.kstest(samples, reference.cdf).pvalue > 1e-4
    assert samples.min() >= low
    assert samples.max() <= high
    single = D.TruncatedNormal(torch.tensor([loc]), torch.tensor([scale]), low, high)
    np.testing.assert_allclose(
        single.log_prob(torch.tensor(grid, dtype=torch.float32).unsqueeze(-1)).numpy(),
        reference.logpdf(grid),
        rtol=1e-4,
        atol=1e-3 * max(1.0, abs(loc) / scale),
    )


def test_truncated_gives_no_probability_outside():
    dist = D.TruncatedNormal(torch.zeros(1), torch.ones(1))
    assert dist.log_prob(torch.tensor([1.5])).item() == -math.inf


def test_log_interval_mass_and_its_gradient_are_finite_everywhere():
    a = torch.tensor([-50.0, -8.0, -1e-6, 0.0, 3.0, 40.0, -1e3, 6.0], requires_grad=True)
    width = torch.tensor([1.0, 1e-3, 2e-6, 1e-5, 5.0, 1e-4, 2e3, 1e2])
    value = log_interval_mass(a, a + width)
    value.sum().backward()
    assert torch.isfinite(value).all()
    assert torch.isfinite(a.grad).all()


def test_inverse_log_ndtr_inverts():
    z = torch.linspace(-60.0, 4.0, 400, dtype=F64)
    torch.testing.assert_close(inverse_log_ndtr(torch.special.log_ndtr(z)), z, rtol=1e-8, atol=1e-8)


def test_bounds_of_a_spec_collapse_to_numbers_when_uniform():
    uniform = D.Bounds.from_spec(BoundedTensorSpec((3,), minimum=-1, maximum=1))
    assert uniform.is_unit
    mixed = D.Bounds.from_spec(BoundedTensorSpec((2,), minimum=[-1, 0], maximum=[1, 2]))
    assert torch.equal(mixed.low, torch.tensor([-1.0, 0.0]))
    assert mixed == D.Bounds(torch.tensor([-1.0, 0.0]), torch.tensor([1.0, 2.0]))
    assert mixed != uniform


def test_impossible_bounds_are_refused():
    with pytest.raises(ValueError, match=r"low=1.0 and high=-1.0"):
        D.Bounds(1.0, -1.0)
    with pytest.raises(ValueError, match="finite"):
        D.Bounds.from_spec(BoundedTensorSpec((2,), minimum=-np.inf, maximum=1))


def test_base_is_the_normal_before_the_bounds():
    loc, scale = torch.randn(3, 2), torch.rand(3, 2)
    for make in (D.SquashedNormal, D.ClippedNormal, D.TruncatedNormal):
        base = D.get_base_dist(make(loc, scale))
        assert isinstance(base, D.DiagNormal)
        assert base.loc is loc


@settings(deadline=None, max_examples=150)
@given(
    loc=st.floats(-50.0, 50.0, width=32),
    scale=st.floats(0.0009765625, 10.0, width=32),
    value=st.floats(-1.0, 1.0, width=32),
    width=st.sampled_from([1e-3, 1.0, 300.0]),
)
def test_squashed_log_prob_is_finite_for_every_value_and_parameter(loc, scale, value, width):
    loc, scale = torch.tensor([loc], requires_grad=True), torch.tensor([scale], requires_grad=True)
    log_prob = D.SquashedNormal(loc, scale, -width, width).log_prob(torch.tensor([value]) * width)
    gradients = torch.autograd.grad(log_prob, (loc, scale))
    assert all(torch.isfinite(tensor).all() for tensor in (log_prob, *gradients))


@settings(deadline=None, max_examples=150)
@given(
    loc=st.floats(-20.0, 20.0, width=32),
    scale=st.floats(0.0625, 1000.0, width=32),
    share=st.floats(0.0, 1.0, width=32),
)
def test_truncated_log_prob_and_samples_are_finite_for_every_parameter(loc, scale, share):
    loc, scale = torch.tensor([loc], requires_grad=True), torch.tensor([scale], requires_grad=True)
    dist = D.TruncatedNormal(loc, scale, -1.0, 2.0)
    log_prob = dist.log_prob(torch.tensor([-1.0 + 3.0 * share]).clamp(-1.0, 2.0))
    sample = dist.rsample()
    gradients = torch.autograd.grad(log_prob + sample.sum(), (loc, scale))
    assert -1.0 <= sample.item() <= 2.0
    assert all(torch.isfinite(tensor).all() for tensor in (log_prob, *gradients))
