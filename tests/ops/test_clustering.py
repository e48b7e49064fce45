import pytest
import torch

from rein.ops import adjusted_rand_index


def test_by_hand():
    # Of 6 elements, pairs together in both: {0, 1} and {3, 4}; 3 + 3 = 6 pairs in the one, 1 + 1 + 1 = 3 in the other.
    found = torch.tensor([[0, 0, 0, 1, 1, 1]])
    true = torch.tensor([[0, 0, 1, 2, 2, 1]])
    by_chance = 6 * 3 / 15
    expected = (2 - by_chance) / ((6 + 3) / 2 - by_chance)
    assert adjusted_rand_index(found, true).tolist() == pytest.approx([expected])


def test_names_of_groups_do_not_matter():
    true = torch.randint(4, (5, 30))
    renamed = torch.tensor([2, 0, 3, 1])[true]
    assert torch.equal(adjusted_rand_index(renamed, true), torch.ones(5))


def test_a_grouping_by_chance_has_none():
    torch.manual_seed(0)
    index = adjusted_rand_index(torch.randint(4, (200, 100)), torch.randint(3, (200, 100)))
    assert index.mean().abs() < 0.01
    assert (index != 0).any()


def test_one_group_and_groups_of_one_agree_with_themselves_only():
    one, each = torch.zeros(1, 5, dtype=torch.int64), torch.arange(5).unsqueeze(0)
    assert adjusted_rand_index(one, one).item() == adjusted_rand_index(each, each).item() == 1
    assert adjusted_rand_index(one, each).item() == 0


def test_elements_that_are_not_counted_change_nothing():
    found, true = torch.randint(3, (4, 12)), torch.randint(3, (4, 12))
    expected = adjusted_rand_index(found[:, :8], true[:, :8])
    true[:, 8:] = -1
    torch.testing.assert_close(adjusted_rand_index(found, true, true >= 0), expected)


def test_it_is_that_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    found, true = torch.randint(4, (6, 20)), torch.randint(3, (6, 20))
    expected = [metrics.adjusted_rand_score(a, b) for a, b in zip(true.numpy(), found.numpy(), strict=True)]
    assert adjusted_rand_index(found, true).tolist() == pytest.approx(expected)
