"""Take nests apart by ``[key]`` and put them together, in ways that a compiler can trace."""

from collections.abc import Sequence
from typing import Any

from rein import nest
from rein.nest import Nest

ItemPath = tuple[Any, ...]


def item_paths(structure: Nest) -> list[ItemPath]:
    """The keys that lead to each leaf of `structure`, in the order of `nest.flatten`."""
    if not nest.is_nested(structure):
        return [()]
    if isinstance(structure, tuple | list):
        items: list[tuple[Any, Nest]] = list(enumerate(structure))
    elif isinstance(structure, dict):
        items = [(key, structure[key]) for key in sorted(structure)]
    else:
        raise TypeError(f"networks take apart tuples, lists and dicts, not {type(structure).__name__}; use one of them")
    return [(key, *rest) for key, part in items for rest in item_paths(part)]


def get_item(values: Nest, path: ItemPath) -> Nest:
    """The part of `values` that `path` leads to."""
    for key in path:
        values = values[key]
    return values


def pack_items(structure: Nest, flat: Sequence[Nest]) -> Nest:
    """A nest like `structure` with the values `flat`, in the order of `nest.flatten`."""
    packed, rest = _pack(structure, list(flat))
    if rest:
        raise ValueError(f"{len(rest)} values are left over after filling {structure!r}")
    return packed


def _pack(structure: Nest, flat: list[Nest]) -> tuple[Nest, list[Nest]]:
    if isinstance(structure, dict):
        filled = {}
        for key in sorted(structure):
            filled[key], flat = _pack(structure[key], flat)
        return {key: filled[key] for key in structure}, flat
    if isinstance(structure, tuple | list):
        parts = []
        for part in structure:
            value, flat = _pack(part, flat)
            parts.append(value)
        if isinstance(structure, list):
            return parts, flat
        named = hasattr(structure, "_fields")
        return (type(structure)(*parts) if named else tuple(parts)), flat
    return flat[0], flat[1:]
