import numpy as np
import pytest
import torch

from rein import nest
from rein.specs import TensorSpec


def test_stack_concat_and_index() -> None:
    one = {"a": torch.tensor([1, 2]), "b": ()}
    two = {"a": torch.tensor([3, 4]), "b": ()}
    assert nest.stack_nests([one, two])["a"].tolist() == [[1, 2], [3, 4]]
    assert nest.stack_nests([one], dim=1)["a"].tolist() == [[1], [2]]
    assert nest.concat_nests([one, two])["a"].tolist() == [1, 2, 3, 4]
    assert nest.index_nest(one, 1)["a"].item() == 2


def test_reshape_and_batch() -> None:
    data = {"x": torch.zeros(2, 3, 5), "y": torch.zeros(2, 3)}
    flat = nest.reshape_batch(data, 2, (-1,))
    assert flat["x"].shape == (6, 5)
    assert flat["y"].shape == (6,)
    assert nest.batch_nested_tensor(data)["y"].shape == (1, 2, 3)
    assert nest.unbatch_nested_tensor(nest.batch_nested_tensor(data))["y"].shape == (2, 3)
    with pytest.raises(ValueError, match="cannot unbatch 'x'"):
        nest.unbatch_nested_tensor(data)


def test_sizes() -> None:
    data = {"x": torch.zeros(2, 3), "y": torch.zeros(2, 4)}
    assert nest.get_nest_batch_size(data) == 2
    with pytest.raises(ValueError, match=r"dimension 1: \{'x': 3, 'y': 4\}"):
        nest.get_nest_size(data, 1)
    with pytest.raises(ValueError, match="empty nest"):
        nest.get_nest_batch_size(())


def test_outer_rank() -> None:
    spec = {"x": TensorSpec((3,)), "y": TensorSpec((), torch.int64)}
    data = {"x": torch.zeros(7, 3), "y": torch.zeros(7, dtype=torch.int64)}
    assert nest.get_outer_rank(data, spec) == 1
    assert nest.is_batched_nested_tensors(data, spec)
    with pytest.raises(ValueError, match="'y' does not match its spec"):
        nest.get_outer_rank({**data, "y": torch.zeros(7)}, spec)
    with pytest.raises(ValueError, match="differ in the number of outer"):
        nest.get_outer_rank({**data, "y": torch.zeros(7, 7, dtype=torch.int64)}, spec)


def test_numpy_conversion_shares_memory() -> None:
    arrays = {"x": np.zeros(3, np.float32)}
    tensors = nest.from_numpy(arrays)
    tensors["x"][0] = 5
    assert arrays["x"][0] == 5
    assert nest.to_numpy(tensors)["x"] is not None
    assert nest.to_numpy(tensors)["x"][0] == 5


def test_grad_of_a_nest() -> None:
    data = {"x": torch.tensor(3.0, requires_grad=True), "y": (torch.tensor(2.0, requires_grad=True), ())}
    gradient = nest.grad(data, data["x"] * data["y"][0])
    assert gradient["x"].item() == 2.0
    assert gradient["y"][0].item() == 3.0


def test_expand_dims_as() -> None:
    assert nest.expand_dims_as(torch.zeros(2), torch.zeros(2, 3, 4)).shape == (2, 1, 1)
    with pytest.raises(ValueError, match="does not begin with"):
        nest.expand_dims_as(torch.zeros(2), torch.zeros(3, 4))
