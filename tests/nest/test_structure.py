from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rein import nest


class Pair(NamedTuple):
    left: Any = ()
    right: Any = ()


@nest.dataclass
class Box:
    width: Any
    height: Any = ()


leaves = st.integers() | st.none() | st.text(max_size=3)
nests = st.recursive(
    leaves | st.just(()),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3)
        | st.builds(Pair, inner, inner)
        | st.builds(Box, inner, inner)
    ),
    max_leaves=12,
)


def naive_leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in naive_leaves(value[key])]
    if isinstance(value, Box):
        return naive_leaves(value.width) + naive_leaves(value.height)
    if isinstance(value, tuple | list):
        return [leaf for item in value for leaf in naive_leaves(item)]
    return [value]


@given(nests)
def test_flatten_visits_leaves_in_order(value: Any) -> None:
    assert nest.flatten(value) == naive_leaves(value)


@given(nests)
def test_pack_undoes_flatten(value: Any) -> None:
    packed = nest.pack_sequence_as(value, nest.flatten(value))
    assert packed == value
    assert type(packed) is type(value)
    nest.assert_same_structure(packed, value)


@given(nests)
def test_map_equals_map_over_leaves(value: Any) -> None:
    mapped = nest.map_structure(lambda *x: x.__repr__(), value, value)
    assert nest.flatten(mapped) == [repr((leaf, leaf)) for leaf in naive_leaves(value)]
    assert nest.map_structure(lambda x: x, value) == value


@given(nests)
def test_every_path_leads_to_its_leaf(value: Any) -> None:
    for path, leaf in nest.flatten_with_paths(value):
        assert nest.get_field(value, path) is leaf or nest.get_field(value, path) == leaf


@given(nests, nests)
def test_structures_compare_as_their_shapes_do(a: Any, b: Any) -> None:
    same = nest.structure_of(a) == nest.structure_of(b)
    if same:
        nest.assert_same_structure(a, b)
    else:
        with pytest.raises(ValueError, match="differ in structure at"):
            nest.assert_same_structure(a, b)


def test_empty_tuple_is_nothing() -> None:
    assert nest.flatten(()) == []
    assert nest.is_empty(((), {"a": ()}))
    assert nest.map_structure(pytest.fail, Pair()) == Pair()


def test_none_is_a_leaf() -> None:
    assert nest.flatten((None, 1)) == [None, 1]


def test_plain_dataclasses_and_sizes_are_leaves() -> None:
    assert nest.flatten({"size": torch.Size([2, 3])}) == [torch.Size([2, 3])]


def test_mismatch_names_the_path() -> None:
    with pytest.raises(ValueError, match=r"at 'b\.1': a leaf of type int against a tuple of 1"):
        nest.map_structure(lambda x, y: x, {"a": 1, "b": (1, 2)}, {"a": 1, "b": (1, (2,))})
    with pytest.raises(ValueError, match="at the root: dict with a against dict with a, b"):
        nest.map_structure(lambda x, y: x, {"a": 1}, {"a": 1, "b": 2})


def test_errors_of_the_function_pass_through() -> None:
    with pytest.raises(ZeroDivisionError):
        nest.map_structure(lambda x: 1 / x, {"a": 0})


def test_pack_refuses_the_wrong_number_of_leaves() -> None:
    with pytest.raises(ValueError, match="cannot pack 1 leaves into a nest of 2"):
        nest.pack_sequence_as((1, 2), [1])


def test_up_to_passes_whole_parts() -> None:
    shallow = Pair(0, 0)
    deep = Pair({"x": 1}, (2, 3))
    assert nest.flatten_up_to(shallow, deep) == [{"x": 1}, (2, 3)]
    assert nest.map_structure_up_to(shallow, len, deep) == Pair(1, 2)
    with pytest.raises(ValueError, match="shallow structure at 'left'"):
        nest.flatten_up_to(Pair((0, 0), 0), Pair((1,), 2))


def test_map_with_path() -> None:
    assert nest.map_structure_with_path(lambda p, x: f"{p}={x}", Pair(1, {"k": [2]})) == Pair(
        "left=1", {"k": ["right.k.0=2"]}
    )
