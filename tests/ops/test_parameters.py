"""Clipping, against loops."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rein import ops

shapes = st.lists(st.sampled_from([(), (3,), (2, 5), (0,)]), min_size=1, max_size=5)


@settings(max_examples=40, deadline=None)
@given(shapes, st.integers(0, 1000), st.sampled_from([0.1, 1.0, 100.0]))
def test_clip_by_global_norm_scales_all_by_one_factor(shapes, seed, bound):
    generator = torch.Generator().manual_seed(seed)
    tensors = [torch.randn(shape, generator=generator) * 3 for shape in shapes]
    before = [t.clone() for t in tensors]
    norm = ops.clip_by_global_norm_([*tensors, None], bound)
    naive = sum(float((t.double() ** 2).sum()) for t in before) ** 0.5
    assert norm.item() == pytest.approx(naive, rel=1e-5)
    factor = min(1.0, bound / naive) if naive > 0 else 1.0
    for old, new in zip(before, tensors, strict=True):
        torch.testing.assert_close(new, old * factor)


def test_clip_leaves_small_gradients_bit_for_bit():
    tensor = torch.randn(10)
    before = tensor.clone()
    ops.clip_by_global_norm_([tensor], 1e6)
    assert torch.equal(tensor, before)


def test_clip_by_norm_and_value():
    tensors = [torch.tensor([3.0, 4.0]), torch.tensor([0.3, 0.4])]
    norms = ops.clip_by_norm_(tensors, 1.0)
    torch.testing.assert_close(norms, torch.tensor([5.0, 0.5]))
    torch.testing.assert_close(tensors[0], torch.tensor([0.6, 0.8]))
    torch.testing.assert_close(tensors[1], torch.tensor([0.3, 0.4]))
    ops.clip_by_value_([tensors[0], None], 0.7)
    torch.testing.assert_close(tensors[0], torch.tensor([0.6, 0.7]))


def test_clip_of_nothing_and_of_zeros():
    assert ops.clip_by_global_norm_([None], 1.0).item() == 0.0
    assert ops.clip_by_norm_([], 1.0).shape == (0,)
    zeros = torch.zeros(3)
    assert ops.clip_by_global_norm_([zeros], 1.0).item() == 0.0
    assert torch.equal(zeros, torch.zeros(3))


def test_the_exponent_is_bounded():
    value = torch.tensor([-21.0, -1.0, 0.0, 3.0], requires_grad=True)
    result = ops.clipped_exp(value, -20.0, 2.0)
    torch.testing.assert_close(result, torch.tensor([-20.0, -1.0, 0.0, 2.0]).exp())
    result.sum().backward()
    assert value.grad is not None
    torch.testing.assert_close(value.grad, torch.tensor([0.0, 0.36787944, 1.0, 0.0]))


def test_norm_of_half_precision_does_not_overflow():
    assert ops.global_norm([torch.full((100,), 6e4, dtype=torch.float16)]).item() == pytest.approx(6e5, rel=1e-3)


def test_nonfinite_gradients_are_reported_on_request():
    with pytest.raises(ValueError, match="nan"):
        ops.clip_by_global_norm_([torch.tensor([float("nan")])], 1.0, error_if_nonfinite=True)
    with pytest.raises(ValueError, match=r"max_norm.*0"):
        ops.clip_by_global_norm_([torch.zeros(1)], 0.0)
