import json
from typing import Any

import pytest
import torch
from torch import nn

from rein.framework import Algorithm
from rein.optimizers import SGD, Adam


class Leaf(Algorithm):
    def __init__(self, optimizer: Any = None, name: str = "Leaf") -> None:
        super().__init__(optimizer=optimizer, name=name)
        self.net = nn.Linear(2, 1)
        self.bias = nn.Parameter(torch.zeros(1))


class Root(Algorithm):
    def __init__(self, optimizer: Any = None, child_optimizer: Any = None, ignore: list[str] | None = None) -> None:
        super().__init__(optimizer=optimizer, name="Root")
        self.child = Leaf(child_optimizer)
        self.head = nn.Linear(1, 1)
        self.target = nn.Linear(1, 1)
        self._ignore = ["target"] if ignore is None else ignore

    def _trainable_attributes_to_ignore(self) -> list[str]:
        return self._ignore


def names_of(algorithm: Algorithm) -> dict[str, set[str]]:
    return {e["optimizer"]: set(e["parameters"]) for e in json.loads(algorithm.get_optimizer_info())}


def test_the_parents_default_takes_what_no_child_handles() -> None:
    root = Root(optimizer=Adam(lr=0.1, name="root"))
    assert names_of(root) == {"root": {"head.weight", "head.bias", "child.net.weight", "child.net.bias", "child.bias"}}
    assert root.get_unoptimized_parameter_info().splitlines() == ["target.weight", "target.bias"]


def test_the_innermost_optimizer_wins() -> None:
    root = Root(optimizer=Adam(lr=0.1, name="root"), child_optimizer=SGD(lr=0.1, name="child"))
    found = names_of(root)
    assert found["root"] == {"head.weight", "head.bias"}
    assert found["child"] == {"child.net.weight", "child.net.bias", "child.bias"}


def test_added_optimizers_take_their_modules_from_the_default() -> None:
    root = Root(optimizer=Adam(lr=0.1, name="root"))
    root.add_optimizer(SGD(lr=0.1, name="head"), [root.head])
    root.child.add_optimizer(SGD(lr=0.1, name="bias"), [root.child.bias])
    found = names_of(root)
    assert found["head"] == {"head.weight", "head.bias"}
    assert found["bias"] == {"child.bias"}
    assert found["root"] == {"child.net.weight", "child.net.bias"}
    assert [o.name for o in root.optimizers()] == ["root", "head", "bias"]
    assert [o.name for o in root.optimizers(recurse=False)] == ["root", "head"]


def test_parameters_without_an_optimizer_are_reported() -> None:
    root = Root(child_optimizer=SGD(lr=0.1, name="child"), ignore=[])
    assert names_of(root)["None"] == {"head.weight", "head.bias", "target.weight", "target.bias"}
    assert "head.weight" in root.get_unoptimized_parameter_info()


def test_what_a_part_ignores_is_not_missed_by_the_whole() -> None:
    whole = Algorithm(name="Whole")
    whole.part = Root(optimizer=Adam(lr=0.1, name="root"))
    assert "None" not in names_of(whole)


def test_forced_visibility_gives_parameters_to_the_parent_too() -> None:
    root = Root(optimizer=Adam(lr=0.1, name="root"), child_optimizer=SGD(lr=0.1, name="child"))
    root.child.force_params_visible_to_parent = True
    found = names_of(root)
    assert "child.net.weight" in found["root"]
    assert "child.net.weight" in found["child"]


def test_shared_parameters_are_handled_once() -> None:
    root = Root(optimizer=Adam(lr=0.1, name="root"))
    root.again = root.head
    params = [p for o in root.optimizers() for g in o.param_groups for p in g["params"]]
    assert len(params) == len(set(params))


def test_one_optimizer_object_given_to_two_algorithms_is_copied() -> None:
    shared = Adam(lr=0.1)
    first, second = Leaf(shared), Leaf(shared)
    assert first.optimizers()[0] is shared
    assert second.optimizers()[0] is not shared
    assert second.optimizers()[0].param_groups[0]["params"][0] in set(second.parameters())


def test_wrong_things_are_refused() -> None:
    leaf = Leaf()
    with pytest.raises(TypeError, match="expected modules and parameters"):
        leaf.add_optimizer(SGD(lr=0.1), ["net"])  # type: ignore[list-item]


def test_parameter_names() -> None:
    root = Root()
    assert root.get_param_name(root.child.bias) == "child.bias"
    assert root.get_param_name(nn.Parameter(torch.zeros(1))) is None


class Several(Algorithm):
    """Parts in a list, in a dict, and in a list that has an optimizer of its own."""

    def __init__(self) -> None:
        super().__init__(optimizer=Adam(lr=0.1, name="root"), name="Several")
        self.listed = nn.ModuleList([Leaf(SGD(lr=0.1, name="first")), Leaf(), nn.Linear(1, 1)])
        self.named = nn.ModuleDict({"part": Leaf(SGD(lr=0.1, name="second"))})
        self.claimed = nn.ModuleList([Leaf(SGD(lr=0.1, name="never"))])
        self.add_optimizer(SGD(lr=0.1, name="claimed"), [self.claimed])


def test_algorithms_in_lists_and_dicts_are_trained_by_their_own_optimizers() -> None:
    found = names_of(Several())
    assert found["first"] == {"listed.0.net.weight", "listed.0.net.bias", "listed.0.bias"}
    assert found["second"] == {"named.part.net.weight", "named.part.net.bias", "named.part.bias"}
    assert found["root"] == {
        *("listed.1.net.weight", "listed.1.net.bias", "listed.1.bias"),
        *("listed.2.weight", "listed.2.bias"),
    }
    assert found["claimed"] == {"claimed.0.net.weight", "claimed.0.net.bias", "claimed.0.bias"}
