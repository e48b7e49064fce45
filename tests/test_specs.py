import pickle

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from rein.specs import BoundedTensorSpec, TensorSpec, check_matches, extract_spec, space_from_spec, spec_from_space

SPECS = [
    TensorSpec((3,)),
    TensorSpec((), torch.int64),
    BoundedTensorSpec((2,), torch.float32, [-1, -2], [1, 2]),
    BoundedTensorSpec((), torch.int64, 3, 7),
    BoundedTensorSpec((84, 84), torch.uint8, 0, 255),
    BoundedTensorSpec((2,), torch.float32, -np.inf, [np.inf, 0]),
]


@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_specs_are_values(spec: TensorSpec) -> None:
    twin = pickle.loads(pickle.dumps(spec))
    assert twin == spec
    assert hash(twin) == hash(spec)
    assert len({*SPECS}) == len(SPECS)
    assert spec != spec.replace(dtype=torch.float64)


@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_makers_give_what_the_spec_says(spec: TensorSpec) -> None:
    made = [spec.zeros((4,)), spec.ones((4,)), spec.constant(1, (4,)), spec.sample((4,))]
    made += [torch.from_numpy(a) for a in (spec.numpy_zeros((4,)), spec.numpy_ones((4,)), spec.numpy_sample((4,)))]
    for tensor in made:
        check_matches(tensor, spec, 1, "made")
        assert tensor.shape[0] == 4


@pytest.mark.parametrize("spec", [s for s in SPECS if isinstance(s, BoundedTensorSpec)], ids=repr)
def test_samples_stay_within_bounds(spec: BoundedTensorSpec) -> None:
    sample = spec.numpy_sample((1000,), np.random.default_rng(0))
    assert np.all(sample >= spec.minimum)
    assert np.all(sample <= spec.maximum)


def test_discrete_samples_reach_both_ends_evenly() -> None:
    spec = BoundedTensorSpec((), torch.int64, 3, 7)
    counts = torch.bincount(spec.sample((5000,), torch.Generator().manual_seed(0)), minlength=8)
    assert counts[:3].sum() == 0
    assert (counts[3:] - 1000).abs().max() < 150
    assert spec.num_values == 5


def test_bad_bounds_are_refused() -> None:
    with pytest.raises(ValueError, match="above maximum"):
        BoundedTensorSpec((), torch.float32, 2, 1)
    with pytest.raises(ValueError, match="cannot be broadcast"):
        BoundedTensorSpec((2,), torch.float32, [0, 0, 0], 1)
    with pytest.raises(ValueError, match="does not fit"):
        BoundedTensorSpec((), torch.uint8, 0, 256)
    with pytest.raises(ValueError, match="NaN"):
        BoundedTensorSpec((), torch.float32, float("nan"), 1)
    with pytest.raises(TypeError, match="torch dtype"):
        TensorSpec((), np.float32)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="non-negative"):
        TensorSpec((-1,))


SPACES = [
    spaces.Box(-1, 1, (3,), np.float32),
    spaces.Box(np.array([-np.inf, 0], np.float32), np.array([np.inf, 1], np.float32)),
    spaces.Box(0, 255, (84, 84, 3), np.uint8),
    spaces.Discrete(4),
    spaces.Discrete(4, start=-1),
    spaces.MultiDiscrete([2, 3, 4]),
    spaces.MultiBinary(5),
    spaces.Dict(a=spaces.Discrete(2), b=spaces.Tuple((spaces.Box(0, 1, ()), spaces.MultiBinary((2, 2))))),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_spaces_survive_the_round_trip(space: gym.Space) -> None:
    assert space_from_spec(spec_from_space(space)) == space


def test_double_boxes_become_float32() -> None:
    assert spec_from_space(spaces.Box(-1, 1, (2,), np.float64)) == BoundedTensorSpec((2,), torch.float32, -1, 1)


def test_unknown_spaces_say_what_to_do() -> None:
    with pytest.raises(TypeError, match="convert the observation with a wrapper"):
        spec_from_space(spaces.Text(5))


def test_mismatch_names_path_and_both_shapes() -> None:
    spec = {"a": TensorSpec((3,)), "b": TensorSpec(())}
    data = {"a": torch.zeros(2, 4), "b": torch.zeros(2)}
    with pytest.raises(ValueError, match=r"observation at 'a' has shape \(2, 4\).*then shape \(3,\)"):
        check_matches(data, spec, 1, "observation")
    with pytest.raises(ValueError, match="observation does not match its spec: the nests differ"):
        check_matches({"a": torch.zeros(2, 3)}, spec, 1, "observation")
    with pytest.raises(ValueError, match="at 'b'"):
        check_matches({"a": torch.zeros(2, 3), "b": torch.tensor(0.0)}, spec, 1, "observation")


def test_extract_spec() -> None:
    assert extract_spec({"a": torch.zeros(2, 3), "b": np.zeros(2, np.uint8)}) == {
        "a": TensorSpec((3,)),
        "b": TensorSpec((), torch.uint8),
    }
