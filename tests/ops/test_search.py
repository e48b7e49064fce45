"""Policies of tree search and numbers in bins, by hand and by their properties."""

import math

import pytest
import torch

from rein import ops


def test_the_reverse_kl_policy_has_the_published_numbers():
    value, prior = torch.tensor([[0.0, 0.5, 1.0]]).repeat(2, 1), torch.tensor([[0.2, 0.3, 0.5]]).repeat(2, 1)
    policy, steps = ops.calculate_exploration_policy(value, prior, torch.tensor([[0.1], [1.0]]))
    expected = torch.tensor([[0.019, 0.054, 0.927], [0.113, 0.237, 0.650]])
    torch.testing.assert_close(policy, expected, atol=1e-3, rtol=0)
    assert 0 < steps < 20
    torch.testing.assert_close(value[0], torch.tensor([0.0, 0.5, 1.0]))  # the inputs are left alone


def test_the_forward_kl_policy_has_the_published_numbers():
    value, prior = torch.tensor([[0.0, 0.5, 1.0]]), torch.tensor([[0.2, 0.3, 0.5]])
    policy, steps = ops.calculate_kl_exploration_policy(value, prior, torch.tensor([[1.0]]))
    torch.testing.assert_close(policy, torch.tensor([[0.097, 0.241, 0.662]]), atol=5e-4, rtol=0)
    assert steps == 0
    large = ops.calculate_kl_exploration_policy(value * 1e4, prior, torch.tensor([[1e-3]]))[0]
    torch.testing.assert_close(large, torch.tensor([[0.0, 0.0, 1.0]]))


@pytest.mark.parametrize("solve", [ops.calculate_exploration_policy, ops.calculate_kl_exploration_policy])
def test_equal_values_return_the_prior_and_forbidden_choices_stay_so(solve):
    prior = torch.tensor([[0.2, 0.8, 0.0]])
    policy, _ = solve(torch.tensor([[0.4, 0.4, 9.0]]), prior, torch.tensor([[0.5]]))
    torch.testing.assert_close(policy, prior, atol=1e-6, rtol=0)


def test_the_reverse_kl_policy_of_many_rows_sums_to_one():
    torch.manual_seed(0)
    prior = torch.distributions.Dirichlet(torch.full((400,), 0.25)).sample((1000,))
    c = torch.rand(1000, 1) + 0.01
    policy, steps = ops.calculate_exploration_policy(torch.rand(1000, 400), prior, c)
    assert (policy.sum(-1) - 1).abs().max() <= 1e-6
    assert (policy >= 0).all()
    assert steps <= 20


def test_rows_that_do_not_converge_are_named():
    value = torch.tensor([[0.0, 1.0], [math.nan, 1.0]])
    with pytest.raises(ValueError, match=r"rows \[1\] did not converge.*check the model"):
        ops.calculate_exploration_policy(value, torch.full((2, 2), 0.5), torch.ones(2, 1))


def test_sharpen_by_hand():
    counts = torch.tensor([[1.0, 3.0, 0.0], [0.0, 0.0, 0.0], [800.0, 799.0, 1.0]])
    policy = ops.sharpen(counts, torch.tensor([0.5, 1.0, 1e-10]))
    torch.testing.assert_close(policy, torch.tensor([[0.1, 0.9, 0.0], [0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]))
    torch.testing.assert_close(ops.sharpen(counts[:1], 1.0), torch.tensor([[0.25, 0.75, 0.0]]))


def test_masked_priors_keep_legal_choices_whose_probability_vanished():
    prior = ops.mask_prior(torch.tensor([[0.5, 0.25, 0.25, 0.0]]), torch.tensor([[False, True, True, True]]))
    torch.testing.assert_close(prior, torch.tensor([[0.0, 0.5, 0.5, 0.0]]))
    assert (prior > 0).tolist() == [[False, True, True, True]]
    only = ops.mask_prior(torch.tensor([[1.0, 0.0]]), torch.tensor([[False, True]]))
    assert only.tolist() == [[0.0, 1.0]]


def test_noise_is_mixed_in_among_allowed_choices():
    prior = torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    mixed = ops.mix_noise(prior, torch.tensor([[0.1, 0.3, 0.6], [0.0, 0.5, 0.5]]), 0.25)
    torch.testing.assert_close(mixed, torch.tensor([[0.4375, 0.5625, 0.0], [1.0, 0.0, 0.0]]))


def test_hashed_numbers_repeat_and_are_uniform():
    rows, columns = torch.arange(200).unsqueeze(1), torch.arange(500)
    u = ops.hashed_uniform(7, rows, columns)
    assert torch.equal(u, ops.hashed_uniform(7, rows, columns))
    assert ops.hashed_uniform(7, 3, 4).item() == u[3, 4].item()
    assert not torch.equal(u, ops.hashed_uniform(8, rows, columns))
    assert 0.0 <= u.min().item() < u.max().item() < 1.0
    counts = torch.histc(u, 10, 0.0, 1.0)
    assert ((counts - 10_000).abs() < 500).all()
    pairs = torch.stack([u[:, :-1].flatten(), u[:, 1:].flatten()])
    assert torch.corrcoef(pairs)[0, 1].abs().item() < 0.02


def test_sequential_halving_by_hand():
    # Four actions, 16 simulations, two phases of 8: twice four actions, four times two.
    assert ops.halving_visits(4, 16) == [0] * 4 + [1] * 4 + [2, 2, 3, 3, 4, 4, 5, 5]
    assert ops.halving_visits(1, 3) == [0, 1, 2]
    assert ops.halving_visits(3, 4) == [0, 0, 0, 1]
    for m in range(2, 20):
        assert len(ops.halving_visits(m, 50)) == 50


def test_two_bins_by_hand():
    bins = ops.integer_bins(5)
    assert bins.tolist() == [-2.0, -1.0, 0.0, 1.0, 2.0]
    assert ops.integer_bins(4).tolist() == [-1.0, 0.0, 1.0, 2.0]
    p = ops.two_bins(torch.tensor([0.25, -2.0, 7.0, 2.0]), 5)
    expected = [[0, 0, 0.75, 0.25, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 1], [0, 0, 0, 0, 1]]
    torch.testing.assert_close(p, torch.tensor(expected))
    x = torch.linspace(-1.9, 1.9, 41).reshape(1, -1)
    torch.testing.assert_close((ops.two_bins(x, 5) * bins).sum(-1), x)


def test_the_transform_and_its_inverse():
    x = torch.tensor([-8.0, 0.0, 3.0, 1e-3, 1e6], dtype=torch.float64)
    torch.testing.assert_close(ops.sqrt1p(x)[:3], torch.tensor([-2.0, 0.0, 1.0], dtype=torch.float64))
    torch.testing.assert_close(ops.inverse_sqrt1p(ops.sqrt1p(x)), x)
