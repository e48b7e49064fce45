from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from rein.data_structures import LossInfo
from rein.framework import Algorithm
from rein.optimizers import Adam
from rein.runtime.checkpoint import Checkpointer


class Part(Algorithm):
    def __init__(self, checkpoint: str | None = None) -> None:
        super().__init__(checkpoint=checkpoint, name="Part")
        self.net = nn.Linear(2, 1)
        self.register_buffer("count", torch.zeros(()))


class Whole(Algorithm):
    """Two parts that share a network and know each other."""

    def __init__(self, checkpoint: str | None = None) -> None:
        super().__init__(optimizer=Adam(lr=0.1), name="Whole")
        self.first = Part(checkpoint)
        self.second = Part()
        self.second.net = self.first.net
        self.first.other = self.second
        self.second.other = self.first

    def learn(self) -> None:
        loss = self.first.net(torch.ones(1, 2)).square().sum()
        self.update_with_gradient(LossInfo(loss=loss))
        self.first.count += 1


def equal(a: dict[str, Any], b: dict[str, Any]) -> bool:
    tensors_a = {k: v for k, v in a.items() if isinstance(v, torch.Tensor)}
    return a.keys() == b.keys() and all(torch.equal(v, b[k]) for k, v in tensors_a.items())


def test_shared_parameters_and_cycles_are_saved_once() -> None:
    state = Whole().state_dict()
    weights = [key for key in state if key.endswith("net.weight")]
    assert weights == ["first.net.weight"]
    assert "first.other.count" in state
    assert "_optimizers.0" in state


def test_training_goes_on_exactly_after_loading() -> None:
    torch.manual_seed(0)
    one = Whole()
    one.learn()
    saved = {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in one.state_dict().items()}
    other = Whole()
    import copy

    other.load_state_dict(copy.deepcopy(saved))
    assert other.first.count == 1
    one.learn()
    other.learn()
    assert equal(one.state_dict(), other.state_dict())


def test_missing_and_unexpected_keys_are_named() -> None:
    whole = Whole()
    state = dict(whole.state_dict())
    del state["first.count"]
    state["stranger"] = torch.zeros(1)
    with pytest.raises(ValueError, match=r"missing \['first.count'\], unexpected \['stranger'\]"):
        whole.load_state_dict(state)
    result = whole.load_state_dict(state, strict=False)
    assert result.missing_keys == ["first.count"]
    assert result.unexpected_keys == ["stranger"]


def test_wrong_shapes_are_refused() -> None:
    whole = Whole()
    state = dict(whole.state_dict())
    state["first.net.weight"] = torch.zeros(3, 3)
    with pytest.raises(ValueError, match=r"first.net.weight has shape \(3, 3\)"):
        whole.load_state_dict(state)


def test_a_part_preloads_its_checkpoint_and_keeps_it(tmp_path: Path) -> None:
    trained = Whole()
    trained.learn()
    Checkpointer(tmp_path / "checkpoints").save(5, {"alg": dict(trained.state_dict())})
    fresh = Whole(checkpoint=f"alg.first@{tmp_path}/checkpoints/ckpt-5")
    assert fresh.first.pre_loaded
    assert torch.equal(fresh.first.net.weight, trained.first.net.weight)
    other = Whole()
    fresh.load_state_dict(other.state_dict(), strict=False)
    assert torch.equal(fresh.first.net.weight, trained.first.net.weight)
    fresh.load_state_dict(other.state_dict(), strict=False, skip_preloded=False)
    assert torch.equal(fresh.first.net.weight, other.first.net.weight)
