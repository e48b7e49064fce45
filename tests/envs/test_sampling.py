import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from rein.envs.sampling import sample_space
from rein.envs.toy.random_spaces import random_space

INF = np.inf


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**6), kind=st.sampled_from(["observation", "action"]))
def test_samples_lie_in_random_nested_spaces(seed, kind):
    space = random_space(np.random.default_rng(seed), 2, kind)
    rng = np.random.default_rng(seed)
    first = sample_space(space, rng)
    assert space.contains(first)
    assert str(sample_space(space, np.random.default_rng(seed))) == str(first)


@pytest.mark.parametrize("bounds", [(10.0, 20.0), (-INF, -7.0), (100.0, INF), (-INF, INF), (3.0, 3.0)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bounds_far_from_zero_and_missing_ones_are_kept(bounds, dtype):
    space = spaces.Box(*bounds, (50,), dtype)
    sample = sample_space(space, np.random.default_rng(0))
    assert space.contains(sample)
    assert np.isfinite(sample).all()
    assert sample.dtype == dtype
    assert bounds[0] == bounds[1] or sample.std() > 1.0


def test_small_integers_reach_both_ends():
    space = spaces.Box(-128, 127, (5000,), np.int8)
    sample = sample_space(space, np.random.default_rng(0))
    assert (sample.min(), sample.max()) == (-128, 127)


def test_spaces_without_a_fixed_shape_are_refused():
    with pytest.raises(TypeError, match="Text"):
        sample_space(spaces.Text(5), np.random.default_rng(0))
