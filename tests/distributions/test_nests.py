"""Functions on nests of distributions."""

import math
from typing import Any, NamedTuple

import pytest
import torch

from rein import distributions as D
from rein import nest
from rein.specs import BoundedTensorSpec, TensorSpec

F64 = torch.float64


class Action(NamedTuple):
    """A discrete and a continuous part."""

    gear: Any
    pedals: Any


def _dists(batch=(4,), requires_grad=False):
    logits = torch.randn(*batch, 3, dtype=F64, requires_grad=requires_grad)
    loc = torch.randn(*batch, 2, dtype=F64, requires_grad=requires_grad)
    return Action(D.Categorical(logits=logits), {"x": D.SquashedNormal(loc, 0.5)})


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(11)


def test_distributions_are_leaves():
    dists = _dists()
    assert nest.flatten(dists) == [dists.gear, dists.pedals["x"]]


@pytest.mark.parametrize("batch", [(4,), (5, 4)])
def test_log_probability_and_entropy_add_up_over_the_nest(batch):
    dists = _dists(batch)
    action, log_prob = D.sample_action_distribution(dists, return_log_prob=True)
    assert isinstance(action, Action)
    expected = dists.gear.log_prob(action.gear) + dists.pedals["x"].log_prob(action.pedals["x"])
    assert log_prob.shape == batch
    torch.testing.assert_close(log_prob, expected)
    torch.testing.assert_close(D.compute_log_probability(dists, action), expected)
    torch.testing.assert_close(D.compute_entropy(dists), dists.gear.entropy() + dists.pedals["x"].entropy())


def test_action_of_another_structure_is_refused():
    with pytest.raises(ValueError, match="Action"):
        D.compute_log_probability(_dists(), (torch.zeros(4), torch.zeros(4, 2)))


def test_empty_nest_is_refused():
    with pytest.raises(ValueError, match="empty"):
        D.compute_entropy(())


def test_rsample_refuses_what_cannot_be_reparameterised_and_names_it():
    with pytest.raises(ValueError, match="gear"):
        D.rsample_action_distribution(_dists())
    loc = torch.zeros(3, 2, requires_grad=True)
    action, log_prob = D.rsample_action_distribution({"a": D.SquashedNormal(loc, 1.0)}, return_log_prob=True)
    assert action["a"].requires_grad
    assert log_prob.requires_grad


def test_epsilon_zero_is_the_mode_and_one_is_a_sample():
    dists = _dists((200,))
    greedy = D.epsilon_greedy_sample(dists, 0.0)
    nest.map_structure(lambda a, b: torch.testing.assert_close(a, b), greedy, D.get_mode(dists))
    torch.manual_seed(0)
    first = D.epsilon_greedy_sample(dists, 1.0)
    torch.manual_seed(0)
    second = D.sample_action_distribution(dists)
    nest.map_structure(lambda a, b: torch.testing.assert_close(a, b), first, second)


def test_epsilon_greedy_samples_whole_actions_at_the_given_rate():
    dists = _dists((5000,))
    action = D.epsilon_greedy_sample(dists, 0.3)
    mode = D.get_mode(dists)
    explored = (action.pedals["x"] != mode.pedals["x"]).any(-1)
    assert explored.double().mean().item() == pytest.approx(0.3, abs=0.03)
    # The discrete part never leaves its mode where the continuous part did not.
    assert (action.gear == mode.gear)[~explored].all()
    assert (action.gear != mode.gear)[explored].any()


def test_epsilon_greedy_gives_no_gradient_and_checks_eps():
    dists = _dists(requires_grad=True)
    for eps in (0.0, 0.5, 1.0):
        assert not D.epsilon_greedy_sample(dists, eps).pedals["x"].requires_grad
    with pytest.raises(ValueError, match=r"1\.5"):
        D.epsilon_greedy_sample(dists, 1.5)


def test_rmode_carries_gradient():
    logits = torch.zeros(2, 3, requires_grad=True)
    rmode = D.get_rmode([D.OneHotCategoricalStraightThrough(logits=logits)])[0]
    assert rmode.requires_grad
    torch.testing.assert_close(rmode.detach(), D.get_mode(D.OneHotCategoricalStraightThrough(logits=logits)))


@pytest.mark.parametrize("kind", ["categorical", "squashed", "mixture"])
def test_entropy_for_gradient_has_an_unbiased_gradient(kind):
    logits = torch.tensor([0.3, -0.5, 1.0], dtype=F64, requires_grad=True)
    if kind == "categorical":
        dist = D.Categorical(logits=logits)
        reference = torch.autograd.grad(D.Categorical(logits=logits).entropy(), logits)[0]
    elif kind == "squashed":
        dist = D.SquashedNormal(logits, 0.4)
        reference = torch.autograd.grad(D.SquashedNormal(logits, 0.4).entropy(), logits)[0]
    else:
        # Components so far apart that the entropy is that of the choice plus a constant.
        component = D.DiagNormal(torch.tensor([[-50.0], [0.0], [50.0]], dtype=F64), 1.0)
        dist = D.Mixture(D.Categorical(logits=logits), component)
        reference = torch.autograd.grad(D.Categorical(logits=logits).entropy(), logits)[0]
    entropy, for_gradient = D.estimated_entropy(dist, num_samples=60_000, check_numerics=True)
    (gradient,) = torch.autograd.grad(for_gradient, logits)
    torch.testing.assert_close(gradient, reference, atol=0.02, rtol=0.0)
    if kind == "categorical":
        torch.testing.assert_close(entropy, dist.entropy().detach(), atol=0.02, rtol=0.0)


def test_estimated_entropy_reports_numerics():
    dist = D.DiagNormal(torch.tensor([math.nan]), torch.ones(1))
    with pytest.raises(FloatingPointError, match="nan"):
        D.estimated_entropy(dist, check_numerics=True)
    with pytest.raises(ValueError, match="0"):
        D.estimated_entropy(dist, num_samples=0)


def test_entropy_with_fallback_sums_or_keeps_the_structure():
    dists = _dists()
    torch.manual_seed(0)
    total, for_gradient = D.entropy_with_fallback(dists)
    torch.manual_seed(0)
    parts, _ = D.entropy_with_fallback(dists, return_sum=False)
    torch.testing.assert_close(total, parts.gear + parts.pedals["x"])
    assert total.shape == for_gradient.shape == (4,)
    torch.testing.assert_close(parts.gear, dists.gear.entropy())


def test_divergence_of_nests_sums_and_mixtures_are_estimated():
    p, q = _dists(), _dists()
    expected = D.kl_divergence(p.gear, q.gear) + D.kl_divergence(p.pedals["x"], q.pedals["x"])
    torch.testing.assert_close(D.kl_divergence(p, q), expected)
    choice = D.Categorical(logits=torch.zeros(1, dtype=F64))
    mixture = D.Mixture(choice, D.DiagNormal(torch.zeros(1, 1, dtype=F64), 1.0))
    estimate = D.kl_divergence(mixture, D.DiagNormal(torch.ones(1, dtype=F64), 1.0), num_samples=60_000)
    assert estimate.item() == pytest.approx(0.5, abs=0.03)


def test_estimated_divergence_has_an_unbiased_gradient():
    logits = torch.tensor([0.5, -0.5], dtype=F64, requires_grad=True)
    component = D.DiagNormal(torch.tensor([[-30.0], [30.0]], dtype=F64), 1.0)
    p = D.Mixture(D.Categorical(logits=logits), component)
    q = D.Mixture(D.Categorical(logits=torch.zeros(2, dtype=F64)), component)
    (gradient,) = torch.autograd.grad(D.kl_divergence(p, q, 60_000), logits)
    exact = D.kl_divergence(D.Categorical(logits=logits), D.Categorical(logits=torch.zeros(2, dtype=F64)))
    (expected,) = torch.autograd.grad(exact, logits)
    torch.testing.assert_close(gradient, expected, atol=0.02, rtol=0.0)


def test_divergence_refuses_different_bounds():
    loc = torch.zeros(1)
    with pytest.raises(ValueError, match="bounds"):
        D.kl_divergence(D.SquashedNormal(loc, 1.0, -1.0, 1.0), D.SquashedNormal(loc, 1.0, -2.0, 1.0))


def test_nests_of_tensors_and_distributions_round_trip_through_stored_parameters():
    info = {"dist": _dists((6, 4)), "value": torch.randn(6, 4)}
    spec = D.extract_spec(info, from_dim=2)
    stored_spec = D.to_distribution_param_spec(spec)
    params = D.distributions_to_params(info)
    nest.assert_same_structure(params, stored_spec)
    assert stored_spec["value"] == TensorSpec(())
    assert stored_spec["dist"].gear == {"logits": TensorSpec((3,), F64)}
    again = D.params_to_distributions(params, spec)
    action = D.sample_action_distribution(info["dist"])
    assert torch.equal(D.kl_divergence(info["dist"], again["dist"]), torch.zeros(6, 4, dtype=F64))
    copied = nest.map_structure(torch.clone, action)
    assert torch.equal(
        D.compute_log_probability(again["dist"], copied), D.compute_log_probability(info["dist"], copied)
    )
    assert torch.equal(again["value"], info["value"])
    assert D.extract_spec(again, from_dim=2) == spec


def test_stacking_and_indexing_are_inverse():
    steps = [_dists() for _ in range(3)]
    stacked = D.stack_distributions(steps)
    assert stacked.gear.batch_shape == (3, 4)
    for t, step in enumerate(steps):
        part = D.index_distributions(stacked, t)
        assert torch.equal(part.gear.logits, step.gear.logits)
        assert torch.equal(part.pedals["x"].loc, step.pedals["x"].loc)
    assert D.map_params(lambda x: x.float(), stacked).gear.logits.dtype == torch.float32


def test_stacking_refuses_different_settings():
    loc = torch.zeros(2, 1)
    with pytest.raises(ValueError, match="nest 1"):
        D.stack_distributions([{"a": D.SquashedNormal(loc, 1.0)}, {"a": D.SquashedNormal(loc, 1.0, 0.0, 1.0)}])


CONTINUOUS = BoundedTensorSpec((2,), minimum=[-1.0, 0.0], maximum=[1.0, 4.0])
DISCRETE = BoundedTensorSpec((), torch.int64, minimum=0, maximum=4)


def test_default_target_entropies_by_hand():
    assert D.calc_default_target_entropy(CONTINUOUS) == pytest.approx(math.log(0.2) + math.log(0.4))
    expected = -0.9 * math.log(0.9) - 0.1 * math.log(0.1 / 4)
    assert D.calc_default_target_entropy(DISCRETE) == pytest.approx(expected)
    nested = D.calc_default_target_entropy((DISCRETE, CONTINUOUS), min_prob=0.1)
    assert nested == pytest.approx(expected + math.log(0.2) + math.log(0.4))
    one_value = BoundedTensorSpec((), torch.int64, minimum=0, maximum=0)
    assert D.calc_default_target_entropy(one_value) == 0.0


def test_default_max_entropies_by_hand():
    assert D.calc_default_max_entropy(DISCRETE) == pytest.approx(0.8 * math.log(5.0))
    narrow = BoundedTensorSpec((1,), minimum=0.0, maximum=0.5)
    assert D.calc_default_max_entropy(narrow, 0.5) == pytest.approx(2.0 * math.log(0.5))


def test_target_entropy_by_count_does_not_depend_on_units():
    ranges = [(-1.0, 1.0), (-3.0, 3.0), (0.0, 0.5)]
    specs = [BoundedTensorSpec((2,), minimum=low, maximum=high) for low, high in ranges]
    found = [D.calc_target_entropy_by_count(spec) for spec in specs]
    assert found == pytest.approx([-2.0, 2 * math.log(3.0) - 2.0, 2 * math.log(0.25) - 2.0])
    assert D.calc_target_entropy_by_count(specs[1], per_action=0.5) == pytest.approx(2 * math.log(3.0) + 1.0)
    both = D.calc_target_entropy_by_count((DISCRETE, specs[0]))
    assert both == pytest.approx(D.calc_default_target_entropy(DISCRETE) - 2.0)


def test_quantised_target_entropy_by_hand():
    spec = BoundedTensorSpec((3,), minimum=-1.0, maximum=1.0)
    assert D.calc_default_target_entropy_quantized(spec, 16) == pytest.approx(3 * (-1.0 - math.log(2.0 / 16)))
    with pytest.raises(ValueError, match="ent_per_action_dim"):
        D.calc_default_target_entropy_quantized(BoundedTensorSpec((1,), minimum=0.0, maximum=0.1), 16)
    with pytest.raises(ValueError, match="continuous"):
        D.calc_default_target_entropy_quantized(DISCRETE, 16)


def test_uniform_log_prob_by_hand():
    assert D.calc_uniform_log_prob((DISCRETE, CONTINUOUS)) == pytest.approx(-math.log(5.0) - math.log(8.0))


def test_specs_without_bounds_are_refused_by_path():
    with pytest.raises(TypeError, match="a"):
        D.calc_uniform_log_prob({"a": TensorSpec((2,))})
    with pytest.raises(ValueError, match="finite"):
        D.calc_uniform_log_prob(BoundedTensorSpec((1,), minimum=-math.inf, maximum=1.0))
