from typing import Any, NamedTuple

import pytest

from rein import nest


class Info(NamedTuple):
    actor: Any = ()
    critic: Any = ()


DATA = {"obs": Info(actor=1, critic={"q": (2, 3)}), "reward": 4}


def test_get_field_by_dotted_path() -> None:
    assert nest.get_field(DATA, "obs.critic.q.1") == 3
    assert nest.get_field(DATA, None) is DATA
    assert nest.get_field(DATA, "") is DATA


def test_get_nested_field() -> None:
    assert nest.get_nested_field(DATA, {"a": "obs.actor", "b": ("reward", ())}) == {"a": 1, "b": (4, ())}


def test_missing_field_lists_what_there_is() -> None:
    with pytest.raises(ValueError, match=r"no field 'obs\.action': 'obs' has actor, critic, not 'action'"):
        nest.get_field(DATA, "obs.action")
    with pytest.raises(ValueError, match="'reward' is a leaf of type int"):
        nest.get_field(DATA, "reward.x")


def test_transform_leaves_the_original_alone() -> None:
    changed = nest.transform_nest(DATA, "obs.critic.q.0", lambda x: x * 10)
    assert changed["obs"].critic["q"] == (20, 3)
    assert DATA["obs"].critic["q"] == (2, 3)  # type: ignore[attr-defined]
    assert nest.transform_nest(3, None, lambda x: x + 1) == 4


def test_set_field() -> None:
    assert nest.set_field(DATA, "reward", ()) == {"obs": DATA["obs"], "reward": ()}


def test_find_field_searches_everywhere() -> None:
    data = ({"loss": 1, "sub": Info(actor={"loss": 2}, critic={"loss": ()})}, [{"loss": None}])
    assert nest.find_field(data, "loss") == [1, 2]
    assert nest.find_field(data, "loss", ignore_empty=False) == [1, 2, (), None]


def test_find_field_does_not_search_what_it_found() -> None:
    data = {"a": 1, "b": {"a": {"a": 2, "b": 3}, "b": [{"a": []}]}}
    assert nest.find_field(data, "a") == [1, {"a": 2, "b": 3}]
    assert nest.find_field(data, "a", ignore_empty=False) == [1, {"a": 2, "b": 3}, []]


def test_prune_keeps_what_the_slim_nest_has() -> None:
    assert nest.prune_nest_like({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"d": 0}}) == {"b": {"d": 3}}
    assert nest.prune_nest_like(Info(1, 2), Info(0, ()), value_to_match=()) == Info(1, ())
    assert nest.prune_nest_like((1, 2), (0, None)) == (1, None)
    with pytest.raises(ValueError, match=r"no 'b\.x'"):
        nest.prune_nest_like({"b": {"c": 1}}, {"b": {"x": 1}})
