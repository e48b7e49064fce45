"""All values in force, found without building anything."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from rein.config import config, configurable, fresh_configs, get_inoperative_configs
from rein.config.in_force import values_in_force


@configurable
def inner_part(size: int = 1, shape: Any = None) -> tuple[int, Any]:
    return size, shape


@configurable
class OuterPart:
    def __init__(self, spec: int, parts: tuple[Callable[..., Any], ...] = (partial(inner_part, 3),), depth: int = 2):
        self.built = (spec, parts, depth)


@configurable
class DerivedPart(OuterPart):
    pass


@configurable
def unrelated_part(width: int = 1) -> int:
    return width


def found(*roots: str) -> dict[str, Any]:
    return {f"{one.owner.path[-1]}.{one.parameter}": one.value for one in values_in_force(roots)}


def test_defaults_of_all_that_is_named_are_in_force() -> None:
    with fresh_configs():
        values = found("OuterPart")
    assert values.pop("OuterPart.parts")[0].func is inner_part
    assert values == {"OuterPart.depth": 2, "inner_part.size": 1, "inner_part.shape": None}


def test_what_was_given_is_in_force_and_does_not_count_as_used() -> None:
    with fresh_configs():
        config("OuterPart", spec=5, parts=())
        config("unrelated_part", width=7)
        assert found("OuterPart") == {
            "OuterPart.spec": 5,
            "OuterPart.parts": (),
            "OuterPart.depth": 2,
            "unrelated_part.width": 7,
        }
        assert len(get_inoperative_configs()) == 3


def test_a_class_without_a_constructor_of_its_own_has_the_values_of_its_base() -> None:
    with fresh_configs():
        config("OuterPart", parts=(), depth=4)
        config("DerivedPart", depth=6)
        assert found("DerivedPart") == {"DerivedPart.depth": 6, "OuterPart.parts": (), "OuterPart.depth": 4}


def test_defaults_stand_beside_the_values() -> None:
    with fresh_configs():
        config("unrelated_part", width=7)
        [one] = values_in_force(["unrelated_part"])
        assert (one.value, one.default) == (7, 1)


def test_an_unknown_root_is_refused() -> None:
    with fresh_configs(), pytest.raises(ValueError, match="unknown configurable"):
        values_in_force(["NothingOfTheKind"])
