import pytest
import torch

from rein.networks import ActionEncoder
from rein.specs import BoundedTensorSpec, TensorSpec


def test_discrete_actions_are_one_hot_and_continuous_ones_as_they_are():
    spec = {
        "a": BoundedTensorSpec((), torch.int64, 1, 3),
        "b": BoundedTensorSpec((2,), torch.float32, -1, 1),
        "c": BoundedTensorSpec((2,), torch.int64, 0, 1),
    }
    network = ActionEncoder(spec)
    assert network.output_spec == TensorSpec((3 + 2 + 4,))
    action = {
        "a": torch.tensor([3, 0]),
        "b": torch.tensor([[0.5, -1.0], [0.0, 0.25]]),
        "c": torch.tensor([[1, 0], [0, 1]]),
    }
    # The 0 of the second is below the least: the action before the first step is zeros.
    assert network(action)[0].tolist() == [[0, 0, 1, 0.5, -1, 0, 1, 1, 0], [1, 0, 0, 0, 0.25, 1, 0, 0, 1]]


def test_further_leading_dimensions_pass():
    network = ActionEncoder(BoundedTensorSpec((), torch.int64, 0, 2))
    action = torch.tensor([[0, 1, 2], [2, 1, 0]])
    assert torch.equal(network(action)[0], torch.nn.functional.one_hot(action, 3).float())


def test_unbounded_discrete_actions_are_refused():
    with pytest.raises(ValueError, match="BoundedTensorSpec"):
        ActionEncoder({"a": TensorSpec((), torch.int64)})
