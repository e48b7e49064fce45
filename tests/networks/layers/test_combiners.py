"""Which parts of a nest are concatenated."""

import pytest
import torch

from rein.networks import EncodingNetwork, NestConcat
from rein.specs import TensorSpec

PARTS = {"a": torch.tensor([[1.0]]), "b": (torch.tensor([[2.0, 3.0]]), torch.tensor([[4.0]]))}


def test_the_mask_says_what_is_kept() -> None:
    assert NestConcat()(PARTS).tolist() == [[1.0, 2.0, 3.0, 4.0]]
    assert NestConcat({"a": True, "b": (False, True)})(PARTS).tolist() == [[1.0, 4.0]]
    assert NestConcat(nest_mask={"a": False, "b": (True, False)})(PARTS).tolist() == [[2.0, 3.0]]


def test_replicas_and_copies_keep_the_mask() -> None:
    spec = (TensorSpec((2,)), TensorSpec((3,)))
    network = EncodingNetwork(spec, preprocessing_combiner=NestConcat((True, False)), fc_layer_params=(4,))
    inputs = (torch.randn(5, 2), torch.randn(5, 3))
    other = (inputs[0], torch.randn(5, 3))
    for one in (network, network.copy(), network.make_parallel(2)):
        assert torch.equal(one(inputs)[0], one(other)[0])
        assert not torch.equal(one(inputs)[0], one((inputs[0] + 1.0, inputs[1]))[0])


def test_a_mask_that_cannot_work_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one of them True"):
        NestConcat((False, False))
    with pytest.raises(ValueError, match="must hold bools"):
        NestConcat(1)
    with pytest.raises(ValueError, match="structure"):
        NestConcat((True, False))(PARTS)
