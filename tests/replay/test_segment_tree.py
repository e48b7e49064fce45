import math
from bisect import bisect_right
from itertools import accumulate

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rein.replay import MaxSegmentTree, MinSegmentTree, SegmentTree, SumSegmentTree, plain_torch

CAPACITIES = [1, 2, 15, 16, 17, 255, 256, 257, 5000]


def make_pair(capacity: int, dtype: torch.dtype = torch.float32) -> tuple[SumSegmentTree, SumSegmentTree]:
    compiled = SumSegmentTree(capacity, dtype)
    with plain_torch():
        return compiled, SumSegmentTree(capacity, dtype)


def test_new_tree_holds_zeros() -> None:
    for tree in (SumSegmentTree(5), MinSegmentTree(5), MaxSegmentTree(5)):
        assert float(tree.summary()) == 0
        assert tree[torch.arange(5)].tolist() == [0] * 5
    assert SumSegmentTree(5).nnz == 0


def test_summaries_by_hand() -> None:
    values = torch.tensor([3.0, 1.0, 4.0, 1.0, 5.0])
    for tree, expected in ((SumSegmentTree(5), 14), (MinSegmentTree(5), 1), (MaxSegmentTree(5), 5)):
        tree[torch.arange(5)] = values
        assert float(tree.summary()) == expected
        tree[torch.tensor([4, 1])] = torch.tensor([2.0, 7.0])
        assert tree[torch.arange(5)].tolist() == [3, 7, 4, 1, 2]
    assert float(MinSegmentTree(5).summary()) == 0, "numbers never set count as zero"


def test_negative_numbers_in_minimum_and_maximum() -> None:
    low, high = MinSegmentTree(20), MaxSegmentTree(20)
    low[torch.arange(20)] = high[torch.arange(20)] = -torch.arange(1.0, 21.0)
    assert float(low.summary()) == -20
    assert float(high.summary()) == -1


def test_integer_trees() -> None:
    tree = SegmentTree(40, torch.max, dtype=torch.int64)
    tree[torch.arange(40)] = torch.arange(40) - 100
    assert int(tree.summary()) == -61
    total = SumSegmentTree(40, dtype=torch.int64)
    total[torch.arange(40)] = torch.arange(40)
    assert int(total.summary()) == 780
    assert total.find_sum_bound(torch.tensor([0, 1, 2, 779])).tolist() == [1, 2, 2, 39]


def test_find_sum_bound_by_hand() -> None:
    for tree in make_pair(5):
        tree[torch.arange(5)] = torch.tensor([0.0, 2.0, 0.0, 3.0, 0.0])
        assert tree.nnz == 2
        found = tree.find_sum_bound(torch.tensor([0.0, 1.9, 2.0, 4.9, 5.0]))
        assert found.tolist() == [1, 1, 3, 3, 3]
        assert tree.find_sum_bound(torch.tensor([[0.0], [2.5]])).tolist() == [[1], [3]]


def test_find_sum_bound_refuses_what_is_outside() -> None:
    for tree in make_pair(5):
        with pytest.raises(ValueError, match="only zeros"):
            tree.find_sum_bound(torch.tensor([0.0]))
        tree[torch.tensor([1])] = 2.0
        for bad in (2.5, -0.1, math.nan):
            with pytest.raises(ValueError, match=r"the sum of SumSegmentTree is 2\.0"):
                tree.find_sum_bound(torch.tensor([bad]))


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="capacity"):
        SumSegmentTree(0)
    with pytest.raises(ValueError, match="op"):
        SegmentTree(3, torch.mul)
    tree = SumSegmentTree(5)
    with pytest.raises(ValueError, match="5 leaves"):
        tree[torch.tensor([5])] = 1.0
    with pytest.raises(ValueError, match="5 leaves"):
        tree[torch.tensor([-1])]
    with pytest.raises(TypeError, match="int64"):
        tree[torch.tensor([1.0])]


def test_last_of_equal_indices_counts() -> None:
    for tree in (*make_pair(300), MaxSegmentTree(300)):
        tree[torch.tensor([7, 3, 7, 7])] = torch.tensor([9.0, 1.0, 8.0, 2.0])
        assert tree[torch.tensor([3, 7])].tolist() == [1, 2]
        assert float(tree.summary()) == (2 if isinstance(tree, MaxSegmentTree) else 3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("capacity", CAPACITIES)
def test_random_writes_agree_with_a_list(capacity: int, dtype: torch.dtype) -> None:
    rng = np.random.default_rng(capacity)
    fast, plain = make_pair(capacity, dtype)
    low, high = MinSegmentTree(capacity, dtype), MaxSegmentTree(capacity, dtype)
    expected = np.zeros(capacity)
    for _ in range(30):
        count = int(rng.integers(1, 2 * capacity + 2))
        indices = rng.integers(0, capacity, count)
        values = rng.integers(0, 4, count).astype(float)
        for index, value in zip(indices, values, strict=True):
            expected[index] = value
        for tree in (fast, plain, low, high):
            tree[torch.from_numpy(indices)] = torch.from_numpy(values)
        for tree in (fast, plain):
            assert tree.leaves.tolist() == expected.tolist()
            assert float(tree.summary()) == expected.sum()
            assert tree.nnz == np.count_nonzero(expected)
            assert tree.max() == expected.max()
        assert float(low.summary()) == expected.min()
        assert float(high.summary()) == expected.max()
        assert torch.equal(fast.values, plain.values)
        total = int(expected.sum())
        if total:
            running = list(accumulate(expected))
            thresholds = torch.arange(0, total + 1, max(1, total // 50), dtype=dtype)[:-1]
            answers = [bisect_right(running, float(t)) for t in thresholds]
            for tree in (fast, plain):
                assert tree.find_sum_bound(thresholds).tolist() == answers
                last = int(np.flatnonzero(expected)[-1])
                assert tree.find_sum_bound(torch.tensor([float(total)])).tolist() == [last]


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.just(0.0),
            st.floats(2.0**-100, 2.0**100, width=32),
            st.floats(0, 1, width=32),
            st.just(np.float32(1e-45).item()),
        ),
        min_size=1,
        max_size=70,
    ),
    st.lists(st.floats(0, 1), min_size=1, max_size=20),
)
def test_found_leaf_is_never_zero_and_paths_agree_bit_for_bit(values: list[float], fractions: list[float]) -> None:
    fast, plain = make_pair(len(values))
    numbers = torch.tensor(values, dtype=torch.float32)
    for tree in (fast, plain):
        tree[torch.arange(len(values))] = numbers
    assert torch.equal(fast.summary(), plain.summary())
    assert torch.equal(fast.values, plain.values)
    total = float(fast.summary())
    if total == 0:
        return
    thresholds = torch.tensor([fraction * total for fraction in [*fractions, 1.0, 0.0]], dtype=torch.float64)
    found = fast.find_sum_bound(thresholds.clamp(max=total))
    assert torch.equal(found, plain.find_sum_bound(thresholds.clamp(max=total)))
    assert bool((numbers[found] > 0).all())
    assert int(found[-1]) == int(torch.nonzero(numbers)[0])
    assert int(found[-2]) == int(torch.nonzero(numbers)[-1])


def test_many_writes_between_reads_recompute_the_whole_tree() -> None:
    fast, plain = make_pair(20000)
    generator = torch.Generator().manual_seed(0)
    for _ in range(40):
        indices = torch.randint(20000, (500,), generator=generator)
        values = torch.rand(500, generator=generator)
        fast[indices], plain[indices] = values, values
    fast.settle()
    assert torch.equal(fast.values, plain.values)


def test_rounding_errors_do_not_build_up() -> None:
    tree = SumSegmentTree(1000)
    generator = torch.Generator().manual_seed(0)
    tree[torch.arange(1000)] = 1.0
    for _ in range(2000):
        tree[torch.randint(1000, (50,), generator=generator)] = 1e6 * torch.rand(50, generator=generator)
    tree[torch.arange(1000)] = 1.0
    assert float(tree.summary()) == 1000


def test_state_dict_round_trip() -> None:
    tree, copy = SumSegmentTree(100), SumSegmentTree(100)
    tree[torch.arange(10)] = torch.arange(10.0)
    copy.load_state_dict(tree.state_dict())
    assert copy.nnz == 9
    assert copy.max() == 9
    assert torch.equal(copy.values, tree.values)


def test_tree_moves_to_another_dtype() -> None:
    tree = SumSegmentTree(100)
    tree[torch.arange(10)] = torch.arange(10.0)
    tree.double()
    tree[torch.tensor([99])] = 5.0
    assert float(tree.summary()) == 50
    assert tree.find_sum_bound(torch.tensor([45.0])).tolist() == [99]
