import torch

from rein.algorithms.off_policy.sequences import merge_steps, put_steps, select_steps
from rein.distributions import DiagNormal

DATA = torch.arange(6.0).reshape(2, 3)


def test_merging_goes_sequence_by_sequence() -> None:
    assert merge_steps(DATA, range(3)).tolist() == [0, 1, 2, 3, 4, 5]
    assert merge_steps(DATA, range(1, 3)).tolist() == [1, 2, 4, 5]
    assert merge_steps(DATA, range(1, 2)).tolist() == [1, 4]


def test_selecting_is_merging_fewer_steps() -> None:
    merged = merge_steps(DATA, range(3))
    for wanted in (range(3), range(2), range(1, 3), range(2, 3)):
        assert torch.equal(select_steps(merged, range(3), wanted), merge_steps(DATA, wanted))
    assert torch.equal(select_steps(merge_steps(DATA, range(1, 3)), range(1, 3), range(2, 3)), DATA[:, 2])


def test_distributions_are_selected_too() -> None:
    merged = DiagNormal(torch.arange(6.0).reshape(6, 1), 1.0)
    assert select_steps(merged, range(3), range(2, 3)).loc.tolist() == [[2.0], [5.0]]


def test_putting_back_fills_other_steps_with_zeros() -> None:
    assert torch.equal(put_steps(merge_steps(DATA, range(3)), range(3), 3), DATA.T)
    middle = put_steps(merge_steps(DATA, range(1, 2)), range(1, 2), 3)
    assert middle.tolist() == [[0, 0], [1, 4], [0, 0]]
