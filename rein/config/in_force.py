"""All values that a configuration puts in force, given or default, found without building anything."""

import functools
import inspect
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from rein.config.configs import ACTIVE, Configs
from rein.config.names import NAMES, REQUIRED, Configurable


class ValueInForce(NamedTuple):
    """A parameter and the value that it has."""

    owner: Configurable
    parameter: str
    value: Any
    default: Any
    """What the value would be had nobody given one; `REQUIRED` if there is none."""


def values_in_force(roots: Iterable[str]) -> list[ValueInForce]:
    """Values of the parameters of some configurables and of all that their values name; none of them counts as used.

    A class or function that a value refers to is followed, also inside containers and `functools.partial`. Parameters
    without a default to which nobody gave a value are left to the caller, and out.

    Args:
        roots: names of configurables to start from; those that were given a value are always among them.
    """
    configs = ACTIVE.configs
    waiting = [NAMES.get_configurable(name) for name in roots]
    waiting += [configs.locate(name)[0] for name in configs.settings]
    seen: set[str] = {configs.user.name}
    found = []
    while waiting:
        owner = waiting.pop()
        if owner.name in seen:
            continue
        seen.add(owner.name)
        if owner.base is not None:
            waiting.append(owner.base)
        for one in _values_of(owner, configs):
            found.append(one)
            waiting.extend(_configurables_in(one.value))
    return sorted(found, key=lambda one: one.owner.full_name(one.parameter))


def _values_of(owner: Configurable, configs: Configs) -> Iterator[ValueInForce]:
    for parameter, default in owner.defaults.items():
        setting = configs.settings.get(owner.full_name(parameter))
        is_inherited = owner.base is not None and parameter in owner.base.defaults
        if setting is not None:
            yield ValueInForce(owner, parameter, setting.value, default)
        elif default is not REQUIRED and not is_inherited:
            yield ValueInForce(owner, parameter, default, default)


def _configurables_in(value: Any) -> Iterator[Configurable]:
    """The configurables that a value names, at every depth."""
    if isinstance(value, functools.partial):
        value = (value.func, *value.args, *value.keywords.values())
    if isinstance(value, Mapping):
        value = tuple(value.values())
    if isinstance(value, list | tuple | set | frozenset):
        for one in value:
            yield from _configurables_in(one)
        return
    named = getattr(value, "__init__", None) if inspect.isclass(value) else value
    owner = getattr(named, "__configurable__", None)
    if isinstance(owner, Configurable):
        yield owner
