"""The names that can be configured, and how a suffix of a name finds its owner."""

import difflib
import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rein.config.documented_modules import without_documented_module
from rein.config.errors import AmbiguousNameError, ConfigError, UnknownNameError

CONF_MODULES = "rein_conf."
USER_PATH = ("_CONFIG", "_USER")
NAMED_WITH_OWNER = "__named_with_owner__"
"""A module that sets this has configurables whose parameters are never found by their bare names."""
REQUIRED = inspect.Parameter.empty


@dataclass(eq=False)
class Configurable:
    """A function or class whose parameters can be given from outside.

    Attributes:
        path: full name, split at the dots.
        target: the decorated class or function.
        defaults: configurable parameters in order, with their defaults (`REQUIRED` if there is none).
        positional: every parameter that can be passed by position, in order, `self` included.
        refused: parameters that cannot be configured, with the reason.
        base: for a class without an `__init__` of its own, the configurable whose `__init__` it inherits.
        inherits_init: whether unset parameters are decided by an inherited `__init__`.
        named_with_owner: whether parameters are found with the name of this configurable before them only.
    """

    path: tuple[str, ...]
    target: Any
    defaults: dict[str, Any] = field(default_factory=dict)
    positional: tuple[str, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)
    base: "Configurable | None" = None
    inherits_init: bool = False
    named_with_owner: bool = False

    @property
    def name(self) -> str:
        """The full dotted name."""
        return ".".join(self.path)

    def full_name(self, parameter: str) -> str:
        """The full dotted name of one of its values."""
        return f"{self.name}.{parameter}"


class NameTable:
    """Configurables by every suffix of their full names.

    Attributes:
        overlay: a second table that is searched too: what the conf files of the run in force define.
        version: changes whenever a name is added.
    """

    def __init__(self) -> None:
        self.overlay: NameTable | None = None
        self._by_path: dict[tuple[str, ...], Configurable] = {}
        self._by_last: dict[str, dict[tuple[str, ...], Configurable]] = defaultdict(dict)
        self._by_parameter: dict[str, dict[tuple[str, ...], Configurable]] = defaultdict(dict)
        self._resolver: Callable[[str], object] | None = None
        self._resolvable: tuple[str, ...] = ()
        self.version = 0

    def __iter__(self) -> Iterator[Configurable]:
        for table in self._tables():
            yield from table._by_path.values()

    def add(self, configurable: Configurable) -> None:
        """Makes `configurable` known; a redefinition of the same source object replaces the old one."""
        path = configurable.path
        old = self._by_path.get(path)
        if old is not None:
            if _origin(old) != _origin(configurable):
                raise ConfigError(
                    f"the configurable name '{configurable.name}' is taken by {_origin(old)} and asked for again by "
                    f"{_origin(configurable)}. Give one of them another name: @configurable('OtherName')"
                )
            for parameter in old.defaults:
                self._by_parameter[parameter].pop(path, None)
        self._by_path[path] = configurable
        self._by_last[path[-1]][path] = configurable
        if not configurable.named_with_owner:
            for parameter in configurable.defaults:
                self._by_parameter[parameter][path] = configurable
        self.version += 1

    def replace_all(self, configurables: Iterable[Configurable]) -> None:
        """Forgets every name and adds these."""
        self._by_path.clear()
        self._by_last.clear()
        self._by_parameter.clear()
        self.version += 1
        for configurable in configurables:
            self.add(configurable)

    def set_resolver(self, resolver: Callable[[str], object] | None, names: Iterable[str]) -> None:
        """Sets who imports the module that defines a name; see `set_name_resolver`."""
        self._resolver, self._resolvable = resolver, tuple(names)

    def find_configurables(self, name: str, *, resolve: bool = True) -> list[Configurable]:
        """Every configurable of which `name` is a suffix; only the exact one if `name` is a full name.

        A documented module in front, such as "data_transformer.", is passed over if nothing is found with it.
        """
        found = self._find_suffix(name, resolve)
        plain = None if found else without_documented_module(name)
        return found if plain is None else self._find_suffix(plain, resolve)

    def _find_suffix(self, name: str, resolve: bool) -> list[Configurable]:
        path = tuple(name.split("."))
        if resolve and self._resolver is not None:
            self._resolver(name)
        tables = self._tables()
        exact = [table._by_path[path] for table in tables if path in table._by_path]
        same_last = [found for table in tables for found in table._by_last.get(path[-1], {}).values()]
        return exact or [found for found in same_last if found.path[-len(path) :] == path]

    def is_module_part(self, name: str) -> bool:
        """Whether `name` occurs in front of the last part of some full name, as a module or an outer class."""
        return any(f".{name}." in f".{one.name}" for one in self)

    def get_configurable(self, name: str) -> Configurable:
        """The one configurable of which `name` is a suffix."""
        found = self.find_configurables(name)
        if not found:
            raise UnknownNameError(self._unknown_configurable(name))
        if len(found) > 1:
            raise AmbiguousNameError(_ambiguous(name, [one.name for one in found]))
        return found[0]

    def find_values(self, name: str, *, resolve: bool = True) -> list[tuple[Configurable, str]]:
        """Every (configurable, parameter) of which `name` is a suffix."""
        owner, _, parameter = name.rpartition(".")
        if not owner:
            return [(one, name) for table in self._tables() for one in table._by_parameter.get(name, {}).values()]
        found = self.find_configurables(owner, resolve=resolve)
        return [(one, parameter) for one in found if parameter in one.defaults]

    def get_value(self, name: str, also_known: Iterable[str] = ()) -> tuple[Configurable, str]:
        """The one (configurable, parameter) of which `name` is a suffix.

        Args:
            name: as written by the user.
            also_known: names that exist elsewhere, for the suggestion if this one is unknown.
        """
        found = self.find_values(name)
        if len(found) > 1:
            names = [one.full_name(parameter) for one, parameter in found]
            raise AmbiguousNameError(_ambiguous(name, names))
        if not found:
            raise UnknownNameError(self._unknown_value(name, also_known))
        return found[0]

    def short_name(self, configurable: Configurable) -> str:
        """The shortest suffix that names `configurable` and no other."""
        for start in range(len(configurable.path) - 1, -1, -1):
            name = ".".join(configurable.path[start:])
            if self.find_configurables(name, resolve=False) == [configurable]:
                return name
        return configurable.name

    def _tables(self) -> tuple["NameTable", ...]:
        return (self,) if self.overlay is None else (self, self.overlay)

    def _unknown_configurable(self, name: str, within: str = "") -> str:
        parts = name.count(".") + 1
        paths = [*(one.path for one in self), *(tuple(known.split(".")) for known in self._resolvable)]
        known = {".".join(path[-parts:]) for path in paths}
        message = f"unknown configurable '{name}'" + (f" in '{within}'" if within else "") + "."
        guess = did_you_mean(name, known)
        return message + (guess or " Import the module that defines it, or correct the name.")

    def _unknown_value(self, name: str, also_known: Iterable[str]) -> str:
        owner, _, parameter = name.rpartition(".")
        if not owner:
            as_function = self.find_configurables(name)
            if as_function:
                return (
                    f"'{name}' is a configurable, not one of its parameters. Add the parameter: "
                    f"'{name}.{next(iter(as_function[0].defaults), 'parameter')}'"
                )
            return f"unknown name '{name}'." + did_you_mean(
                name, {*also_known, *(each for one in self if not one.named_with_owner for each in one.defaults)}
            )
        found = self.find_configurables(owner, resolve=False)
        if not found:
            return self._unknown_configurable(owner, within=name)
        one = found[0]
        if parameter in one.refused:
            return f"'{parameter}' of '{one.name}' cannot be configured: {one.refused[parameter]}."
        message = f"'{self.short_name(one)}' has no parameter '{parameter}'."
        for base in getattr(one.target, "__mro__", ())[1:]:
            above = base.__dict__.get("__init__")
            inherited = getattr(above, "__configurable__", None)
            if inherited is not None and parameter in inherited.defaults:
                return f"{message} It belongs to a base class: '{inherited.name}.{parameter}'"
        guess = did_you_mean(parameter, one.defaults)
        return f"{message}{guess} Its parameters: {', '.join(one.defaults) or 'none'}"


def nearest(word: str, known: Iterable[str]) -> list[str]:
    """Up to three known words that resemble `word`, case ignored, best first."""
    by_lower = {one.lower(): one for one in sorted(known)}
    close = difflib.get_close_matches(word.lower(), by_lower, n=3, cutoff=0.6)
    return [by_lower[one] for one in close]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The sentence " Did you mean ...?", or nothing if no known word is near."""
    close = nearest(word, known)
    return f" Did you mean {' or '.join(repr(one) for one in close)}?" if close else ""


def _ambiguous(name: str, candidates: list[str]) -> str:
    listed = "\n  ".join(sorted(candidates))
    return f"'{name}' is ambiguous; write more of the path of the one you mean:\n  {listed}"


def _origin(configurable: Configurable) -> str:
    return f"{configurable.target.__module__}.{configurable.target.__qualname__}"


NAMES = NameTable()

ALIASES = {
    "lr": "learning_rate",
    "batch_size": "mini_batch_size",
    "n_steps": "unroll_length",
    "buffer_size": "replay_buffer_length",
    "learning_starts": "initial_collect_steps",
    "fc_layer_params": "hidden_layers",
    "net_arch": "hidden_layers",
}
"""What other libraries, and people in a hurry, call settings of ours; for names without dots that are given from outside."""


def set_name_resolver(resolver: Callable[[str], object] | None, names: Iterable[str] = ()) -> None:
    """Lets a conf use names whose modules have not been imported.

    Args:
        resolver: called with a configurable's name as written, a suffix of the full one
            (`"SacAlgorithm"`, `"sac.SacAlgorithm"`), before it is looked up; imports every module
            that defines such a name and does nothing for names that it does not know. Called each
            time, so that the answer never depends on what happened to be imported before. None removes it.
        names: configurables that it can import; used to suggest the nearest name.
    """
    NAMES.set_resolver(resolver, names)
