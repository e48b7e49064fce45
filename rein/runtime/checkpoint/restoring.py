"""Loaded states in the shape of live ones: NamedTuples and dataclasses again instead of dicts."""

import copy
import dataclasses
from typing import Any

from rein import nest


def restore_like(template: Any, loaded: Any) -> Any:
    """The values of `loaded` in the containers of `template`.

    Files never name classes, so NamedTuples and dataclasses come back from a checkpoint as dicts by
    field name. This rebuilds them after a nest that has the same structure.

    Args:
        template: nest whose containers are wanted; its leaves are ignored.
        loaded: nest as a checkpoint gave it.

    Raises:
        ValueError: the structures differ; the message gives the path.
    """
    return _restore(template, loaded, "state")


def _restore(template: Any, loaded: Any, path: str) -> Any:
    if nest.is_namedtuple(template):
        values = _fields(template._asdict(), loaded, path)
        return type(template)(**values)
    if dataclasses.is_dataclass(template) and not isinstance(template, type):
        current = {f.name: getattr(template, f.name) for f in dataclasses.fields(template)}
        return dataclasses.replace(template, **_fields(current, loaded, path))
    if isinstance(template, dict):
        restored = copy.copy(template)
        restored.update(_fields(template, loaded, path))
        return restored
    if isinstance(template, list | tuple):
        if not isinstance(loaded, list | tuple) or len(loaded) != len(template):
            raise ValueError(f"{path} should be {len(template)} items, but the checkpoint has {_describe(loaded)}")
        items = [_restore(t, v, f"{path}.{i}") for i, (t, v) in enumerate(zip(template, loaded, strict=True))]
        return tuple(items) if isinstance(template, tuple) else items
    if isinstance(loaded, dict | list | tuple):
        raise ValueError(
            f"{path} should be a single {type(template).__name__}, but the checkpoint has {_describe(loaded)}"
        )
    return loaded


def _fields(template: dict[Any, Any], loaded: Any, path: str) -> dict[Any, Any]:
    if not isinstance(loaded, dict) or loaded.keys() != template.keys():
        raise ValueError(f"{path} should have the fields {list(template)}, but the checkpoint has {_describe(loaded)}")
    return {name: _restore(template[name], loaded[name], f"{path}.{name}") for name in template}


def _describe(loaded: Any) -> str:
    if isinstance(loaded, dict):
        return f"the fields {list(loaded)}"
    if isinstance(loaded, list | tuple):
        return f"{len(loaded)} items"
    return f"a {type(loaded).__name__}"
