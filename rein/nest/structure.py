"""Map, flatten, pack and compare nests."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeAlias, TypeVar, dataclass_transform

import optree
import optree.dataclasses
from optree import PyTreeSpec

Nest: TypeAlias = Any
"""A leaf, or a tuple, list, dict, NamedTuple or `nest.dataclass` of nests."""

_NAMESPACE = "rein"
_flatten = partial(optree.tree_flatten, none_is_leaf=True, namespace=_NAMESPACE)
_leaves = partial(optree.tree_leaves, none_is_leaf=True, namespace=_NAMESPACE)
_structure = partial(optree.tree_structure, none_is_leaf=True, namespace=_NAMESPACE)

T = TypeVar("T")


@dataclass_transform()
def dataclass(cls: type[T]) -> type[T]:
    """Makes `cls` a dataclass whose fields are children of a nest.

    A dataclass made by `dataclasses.dataclass` stays a leaf.
    """
    return optree.dataclasses.dataclass(cls, namespace=_NAMESPACE)  # type: ignore[call-overload, no-any-return]


def is_namedtuple(value: object) -> bool:
    """Whether `value` is an instance of a NamedTuple class."""
    return optree.is_namedtuple_instance(value)


def is_nested(value: Any) -> bool:
    """Whether `value` is a container (an empty one too) rather than a leaf."""
    return not optree.tree_is_leaf(value, none_is_leaf=True, namespace=_NAMESPACE)


def is_empty(nest: Nest) -> bool:
    """Whether `nest` has no leaf."""
    return not _leaves(nest)


def structure_of(nest: Nest) -> PyTreeSpec:
    """The structure of `nest` without its leaves; hashable, comparable, and `unflatten`s."""
    return _structure(nest)


def flatten(nest: Nest) -> list[Any]:
    """The leaves of `nest`, dict entries in the order of their sorted keys."""
    return _leaves(nest)


def flatten_with_paths(nest: Nest) -> list[tuple[str, Any]]:
    """The leaves of `nest` in the order of `flatten`, each with its dotted path."""
    accessors, leaves, _ = optree.tree_flatten_with_accessor(nest, none_is_leaf=True, namespace=_NAMESPACE)
    return [(_dotted(a), leaf) for a, leaf in zip(accessors, leaves, strict=True)]


def pack_sequence_as(structure: Nest, flat: Iterable[Any]) -> Nest:
    """A nest with the structure of `structure` and the leaves `flat`."""
    flat = list(flat)
    spec = _structure(structure)
    if spec.num_leaves != len(flat):
        raise ValueError(
            f"cannot pack {len(flat)} leaves into a nest of {spec.num_leaves}: give one value per leaf of "
            f"{describe(structure)}"
        )
    return spec.unflatten(flat)


def map_structure(func: Callable[..., Any], nest: Nest, *rest: Nest) -> Nest:
    """Applies `func` to the corresponding leaves of nests of one structure.

    Args:
        func: called with one leaf of each nest.
        nest: gives the structure of the result.
        *rest: nests of exactly the same structure.

    Returns:
        A nest of what `func` returned.
    """
    leaves, spec = _flatten(nest)
    if not rest:
        return spec.unflatten(map(func, leaves))
    columns = [leaves]
    for other in rest:
        other_leaves, other_spec = _flatten(other)
        if other_spec != spec:
            assert_same_structure(nest, other)
        columns.append(other_leaves)
    return spec.unflatten(map(func, *columns))


def map_structure_with_path(func: Callable[..., Any], nest: Nest, *rest: Nest) -> Nest:
    """Like `map_structure`, with the dotted path of the leaf as the first argument of `func`."""
    for other in rest:
        assert_same_structure(nest, other)
    paths = [path for path, _ in flatten_with_paths(nest)]
    leaves, spec = _flatten(nest)
    return spec.unflatten(map(func, paths, leaves, *(_leaves(other) for other in rest)))


def flatten_up_to(shallow: Nest, nest: Nest) -> list[Nest]:
    """The parts of `nest` that stand where `shallow` has its leaves."""
    try:
        return _structure(shallow).flatten_up_to(nest)
    except ValueError:
        assert_same_structure_up_to(shallow, nest)
        raise


def map_structure_up_to(shallow: Nest, func: Callable[..., Any], *nests: Nest) -> Nest:
    """Applies `func` to the parts of `nests` that stand where `shallow` has its leaves."""
    columns = [flatten_up_to(shallow, nest) for nest in nests]
    return _structure(shallow).unflatten(map(func, *columns))


def assert_same_structure(nest1: Nest, nest2: Nest) -> None:
    """Raises `ValueError` naming the first path at which two nests differ in structure."""
    if _structure(nest1) != _structure(nest2):
        difference = _first_difference(nest1, nest2, "", up_to=False)
        raise ValueError(f"the nests differ in structure {difference}")


def assert_same_structure_up_to(shallow: Nest, nest: Nest) -> None:
    """Raises `ValueError` naming the first path at which `nest` lacks the structure of `shallow`."""
    difference = _first_difference(shallow, nest, "", up_to=True)
    if difference:
        raise ValueError(f"the nest does not have the shallow structure {difference}")


def describe(nest: Nest) -> str:
    """A short text for error messages: the structure with `*` for each leaf."""
    return repr(map_structure(lambda _: _Star(), nest))


def join_path(parent: str, key: object) -> str:
    """The dotted path of child `key` of `parent`."""
    return f"{parent}.{key}" if parent else str(key)


def children(nest: Nest) -> tuple[tuple[Any, ...], list[Nest], Callable[[Iterable[Nest]], Nest]]:
    """One level of a container: the keys of its children, the children, and how to rebuild it."""
    level = optree.tree_flatten_one_level(nest, none_is_leaf=True, namespace=_NAMESPACE)
    keys = nest._fields if is_namedtuple(nest) else level.entries
    return keys, list(level.children), partial(level.unflatten_func, level.metadata)


class _Star:
    def __repr__(self) -> str:
        return "*"


def _dotted(accessor: optree.PyTreeAccessor) -> str:
    parts = []
    for entry in accessor:
        if isinstance(entry, optree.NamedTupleEntry):
            parts.append(entry.field)
        else:
            parts.append(str(entry.entry))
    return ".".join(parts)


def _first_difference(nest1: Nest, nest2: Nest, path: str, up_to: bool) -> str:
    """Where and how two nests differ, or "" if they do not; leaves of `nest1` match all with `up_to`."""
    where = f"at {path!r}" if path else "at the root"
    if not is_nested(nest1) and (up_to or not is_nested(nest2)):
        return ""
    if type(nest1) is not type(nest2) and (is_nested(nest1) or is_nested(nest2)):
        return f"{where}: {_kind(nest1)} against {_kind(nest2)}"
    keys1, children1, _ = children(nest1)
    keys2, children2, _ = children(nest2)
    if keys1 != keys2:
        return f"{where}: {_kind(nest1)} against {_kind(nest2)}"
    for key, child1, child2 in zip(keys1, children1, children2, strict=True):
        difference = _first_difference(child1, child2, join_path(path, key), up_to)
        if difference:
            return difference
    return ""


def _kind(nest: Nest) -> str:
    if not is_nested(nest):
        return f"a leaf of type {type(nest).__name__}"
    keys = children(nest)[0]
    if isinstance(nest, tuple | list) and not is_namedtuple(nest):
        return f"a {type(nest).__name__} of {len(keys)}"
    return f"{type(nest).__name__} with {', '.join(map(str, keys)) or 'no fields'}"
