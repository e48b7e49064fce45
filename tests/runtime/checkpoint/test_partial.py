"""`prefix@path` gives the part of a checkpoint that a module below that prefix can load."""

from pathlib import Path

import pytest
import torch
from torch import nn

from rein.runtime.checkpoint import (
    Checkpointer,
    CheckpointError,
    CheckpointNotFoundError,
    load_partial,
    split_location,
)


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self._sub_alg1 = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
        self._sub_alg10 = nn.Linear(1, 1)
        self.alpha = nn.Parameter(torch.zeros(()))


@pytest.fixture
def agent():
    torch.manual_seed(0)
    return Agent()


@pytest.fixture
def saved(tmp_path, agent):
    trainer = {"metrics": [{"loss": 1.0}, 2]}
    return Checkpointer(tmp_path / "checkpoints").save(
        100, {"alg": agent.state_dict(), "trainer": trainer, "nested": {"alg": {"net": {"w": 1}}}}
    )


@pytest.mark.parametrize(
    ("location", "expected"),
    [
        ("alg._sub_alg1@/a/ckpt-100", ("alg._sub_alg1", "/a/ckpt-100")),
        ("/a/ckpt-100", ("alg", "/a/ckpt-100")),
        ("@/a/ckpt-100", ("alg", "/a/ckpt-100")),
        ("alg@runs/x@2/ckpt-1", ("alg", "runs/x@2/ckpt-1")),
        ("/runs/x@2/ckpt-1", ("alg", "/runs/x@2/ckpt-1")),
    ],
)
def test_location_is_split_at_the_first_at_sign_before_a_path(location, expected):
    assert split_location(location) == (expected[0], Path(expected[1]))


@pytest.mark.parametrize("location", ["", "alg@", "alg..b@/a", "alg.@/a"])
def test_location_without_a_path_or_with_an_empty_name_is_refused(location):
    with pytest.raises(ValueError, match="is not 'prefix@path'"):
        split_location(location)


def test_submodule_loads_what_lies_below_its_prefix(saved, agent):
    state = load_partial(f"alg._sub_alg1@{saved}")
    other = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    other.load_state_dict(state)
    expected = agent._sub_alg1.state_dict()
    assert all(torch.equal(value, expected[key]) for key, value in other.state_dict().items())
    assert list(state) == list(expected)
    assert state._metadata == expected._metadata
    assert list(load_partial(f"alg._sub_alg1.0@{saved}")) == ["weight", "bias"]


def test_prefix_is_alg_when_left_out(saved, agent):
    for location in (str(saved), f"@{saved}", f"alg@{saved}"):
        Agent().load_state_dict(load_partial(location))


def test_path_may_be_the_checkpoints_or_the_run(tmp_path, saved):
    Checkpointer(saved.parent).save(200, {"alg": {"newer": 1}})
    assert load_partial(f"alg@{saved.parent}") == {"newer": 1}
    assert load_partial(str(tmp_path)) == {"newer": 1}
    (saved.parent / "ckpt-200" / "alg.json").write_text("cut")
    assert "alpha" in load_partial(str(tmp_path))
    (tmp_path / "link").symlink_to(saved)
    assert "alpha" in load_partial(str(tmp_path / "link"))


def test_prefix_goes_through_nested_dicts_and_lists(saved):
    assert load_partial(f"nested.alg.net@{saved}") == {"w": 1}
    assert load_partial(f"nested.alg@{saved}") == {"net": {"w": 1}}
    assert load_partial(f"trainer.metrics.0@{saved}") == {"loss": 1.0}
    assert load_partial(f"trainer.metrics@{saved}") == {"0": {"loss": 1.0}, "1": 2}


def test_dotted_keys_inside_nested_dicts_are_found(tmp_path):
    state = {"a": {"b.c.w": 1, "b.c.d": {"e": 2}, "b": {"x": 3}}, "a.b": {"y": 4}}
    path = Checkpointer(tmp_path).save(1, {"alg": state})
    assert load_partial(f"alg.a.b.c@{path}") == {"w": 1, "d": {"e": 2}}
    assert load_partial(f"alg.a.b.c.d@{path}") == {"e": 2}


def test_unknown_prefix_names_near_ones(saved):
    with pytest.raises(ValueError, match=r"nothing under 'alg\._sub_alg2'.*'alg\._sub_alg1'"):
        load_partial(f"alg._sub_alg2@{saved}")
    with pytest.raises(ValueError, match=r"nothing under 'alg\.zzzzzzz'; it has \['alg\._sub_alg1'"):
        load_partial(f"alg.zzzzzzz@{saved}")
    with pytest.raises(ValueError, match=r"no component 'algo'; it has \['alg', 'nested', 'trainer'\]"):
        load_partial(f"algo._sub_alg1@{saved}")


def test_single_value_is_not_a_state(saved):
    with pytest.raises(ValueError, match=r"'alg\.alpha' .* is a single Tensor.*load 'alg'"):
        load_partial(f"alg.alpha@{saved}")


def test_path_without_a_checkpoint_is_refused(tmp_path):
    with pytest.raises(CheckpointNotFoundError, match="does not exist"):
        load_partial(str(tmp_path / "nowhere"))
    with pytest.raises(CheckpointNotFoundError, match=r"no checkpoint in .* nor in its checkpoints"):
        load_partial(str(tmp_path))
    (tmp_path / "ckpt-3").mkdir()
    with pytest.raises(CheckpointError, match=r"lacks 'manifest\.json'"):
        load_partial(str(tmp_path / "ckpt-3"))
