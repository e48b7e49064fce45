"""Read and replace parts of a nest by dotted path."""

from collections.abc import Callable
from typing import Any

from rein.nest.structure import Nest, children, is_namedtuple, is_nested, join_path, map_structure


def get_field(nest: Nest, field: str | None) -> Nest:
    """The part of `nest` at a dotted path.

    Args:
        nest: any nest.
        field: such as ``"observation.image"``; list and tuple items by number. `None` or "" is `nest` itself.
    """
    for position, name in enumerate(_names(field)):
        keys, values, _ = _container(nest, field, position)
        nest = values[_index(keys, name, field, position)]
    return nest


def get_nested_field(nest: Nest, fields: Nest) -> Nest:
    """A nest shaped like `fields`, each path in it replaced by that part of `nest`."""
    return map_structure(lambda field: get_field(nest, field), fields)


def set_field(nest: Nest, field: str, value: Nest) -> Nest:
    """A copy of `nest` with the part at `field` replaced by `value`."""
    return transform_nest(nest, field, lambda _: value)


def transform_nest(nest: Nest, field: str | None, func: Callable[[Nest], Nest]) -> Nest:
    """A copy of `nest` with the part at `field` replaced by `func` of it.

    Args:
        nest: left unchanged.
        field: dotted path; `None` or "" transforms the whole nest.
        func: gets the part and returns its replacement, of any structure.
    """
    return _transform(nest, _names(field), 0, field, func)


def find_field(nest: Nest, name: str, ignore_empty: bool = True) -> list[Nest]:
    """All parts called `name` anywhere in `nest`, in order; what is inside of such a part is not searched.

    Args:
        nest: searched through dicts, NamedTuples, dataclasses, lists and tuples.
        name: a single field name, not a path.
        ignore_empty: leave out parts that are `()`, `[]` or `None`.
    """
    if not is_nested(nest):
        return []
    found: list[Nest] = []
    keys, values, _ = children(nest)
    for key, value in zip(keys, values, strict=True):
        if key != name:
            found.extend(find_field(value, name, ignore_empty))
        elif not (ignore_empty and (value is None or (isinstance(value, tuple | list) and len(value) == 0))):
            found.append(value)
    return found


def prune_nest_like(nest: Nest, slim_nest: Nest, value_to_match: Any = None) -> Nest:
    """Keeps of `nest` what `slim_nest` has.

    Args:
        nest: has at least the fields of `slim_nest`.
        slim_nest: its dict keys select those of `nest`; other containers must have the same fields.
        value_to_match: where `slim_nest` holds this value, the result holds it too.

    Returns:
        A nest of the structure of `slim_nest` with the leaves of `nest`.
    """
    return _prune(nest, slim_nest, value_to_match, "")


def _names(field: str | None) -> list[str]:
    return field.split(".") if field else []


def _container(nest: Nest, field: str | None, position: int) -> tuple[tuple[Any, ...], list[Nest], Callable[..., Nest]]:
    if not is_nested(nest):
        raise ValueError(f"no field {field!r}: {_upto(field, position)} is a leaf of type {type(nest).__name__}")
    return children(nest)


def _index(keys: tuple[Any, ...], name: str, field: str | None, position: int) -> int:
    for index, key in enumerate(keys):
        if str(key) == name:
            return index
    available = ", ".join(map(str, keys)) or "nothing"
    raise ValueError(f"no field {field!r}: {_upto(field, position)} has {available}, not {name!r}")


def _upto(field: str | None, position: int) -> str:
    return repr(".".join(_names(field)[:position])) if position else "the nest"


def _transform(nest: Nest, names: list[str], position: int, field: str | None, func: Callable[[Nest], Nest]) -> Nest:
    if position == len(names):
        return func(nest)
    keys, values, rebuild = _container(nest, field, position)
    index = _index(keys, names[position], field, position)
    values[index] = _transform(values[index], names, position + 1, field, func)
    return rebuild(values)


def _prune(nest: Nest, slim: Nest, value_to_match: Any, path: str) -> Nest:
    if not is_nested(slim):
        return slim if slim is value_to_match else nest
    if type(slim) is type(value_to_match) and slim == value_to_match:
        return slim
    if not is_nested(nest):
        raise ValueError(f"cannot prune at {path or 'the root'!r}: the nest has a leaf there")
    slim_keys, slim_values, rebuild = children(slim)
    keys, values, _ = children(nest)
    if is_namedtuple(slim) and keys != slim_keys:
        raise ValueError(f"cannot prune at {path or 'the root'!r}: fields {keys} against {slim_keys}")
    pruned = []
    for key, slim_value in zip(slim_keys, slim_values, strict=True):
        if key not in keys:
            raise ValueError(f"cannot prune: the nest has no {join_path(path, key)!r}")
        pruned.append(_prune(values[keys.index(key)], slim_value, value_to_match, join_path(path, key)))
    return rebuild(pruned)
