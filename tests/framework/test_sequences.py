"""Cutting, shuffling and turning sequences."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rein.framework.steps import batch_major, sequences, shuffled, time_major


def test_sequences_keep_time_together() -> None:
    data = {"x": torch.arange(12).reshape(2, 6)}
    rows = sequences(data, 3)["x"]
    assert rows.tolist() == [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9, 10, 11]]
    with pytest.raises(ValueError, match="6 steps cannot be cut into sequences of 4"):
        sequences(data, 4)


@given(st.integers(1, 20), st.integers(1, 25) | st.none())
def test_a_pass_visits_every_sequence_once(count: int, size: int | None) -> None:
    data = (torch.arange(count).reshape(count, 1), {"y": torch.arange(count).reshape(count, 1) * 10})
    seen = []
    for (x, other), index in shuffled(data, size):
        assert torch.equal(other["y"], x * 10)
        assert torch.equal(x[:, 0], index)
        assert len(x) <= (size or count)
        seen += x[:, 0].tolist()
    assert sorted(seen) == list(range(count))


def test_turning_is_its_own_inverse() -> None:
    x = torch.arange(6).reshape(2, 3)
    turned = time_major({"x": x})["x"]
    assert turned.shape == (3, 2)
    assert torch.equal(batch_major(turned), x)
