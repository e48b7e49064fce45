"""The configuration as text: what was used, and what was set but never used."""

import enum
import functools
import keyword
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

from rein.config.configs import ACTIVE, Configs
from rein.config.errors import Place
from rein.config.names import CONF_MODULES, USER_PATH, Configurable

_USER_PREFIX = ".".join(USER_PATH) + "."


def get_operative_configs() -> list[tuple[str, Any]]:
    """Full names and values of all that was used so far, given or default, sorted by name."""
    configs = ACTIVE.configs
    operative = []
    for name, use in sorted(configs.used.items()):
        setting = configs.settings.get(name)
        if setting is not None:
            operative.append((name, setting.value))
        elif not use.inherits_init:
            operative.append((name, use.default))
    return operative


def get_inoperative_configs() -> list[tuple[str, Any]]:
    """Names and values of all that was given but not used so far, sorted by name."""
    configs = ACTIVE.configs
    inoperative = [(name, setting.value) for name, setting in configs.settings.items() if name not in configs.used]
    inoperative += [(pre.name, pre.value) for pre in configs.pre_settings if pre.bound_to is None]
    return sorted(inoperative, key=lambda pair: pair[0])


class UnusedOverride(NamedTuple):
    """A value that was given from outside of all confs and that nothing has used."""

    owner: Configurable
    parameter: str
    place: Place


def get_unused_overrides() -> list[UnusedOverride]:
    """What was given from outside of all confs, by a command or a script, but not used so far."""
    configs = ACTIVE.configs
    unused = []
    for name, setting in configs.settings.items():
        if setting.outside and setting.source is None and name not in configs.used:
            owner, parameter = configs.locate(name)
            unused.append(UnusedOverride(owner, parameter, setting.place))
    return unused


def operative_config_str() -> str:
    """The operative configuration as a conf file.

    Values that cannot be written as Python expressions (objects, lambdas) stand in comments.
    """
    header = "# The operative configuration: every value that was used, defaults included."
    return _render(ACTIVE.configs, header, get_operative_configs())


def inoperative_config_str() -> str:
    """The inoperative configuration as a conf file, see `operative_config_str`."""
    header = "# The inoperative configuration: every value that was given and never used."
    return _render(ACTIVE.configs, header, get_inoperative_configs())


def expression(value: Any, modules: set[str]) -> str | None:
    """A Python expression for `value`, or None if there is none.

    Literals, containers of expressions, classes, functions and enum members that their modules hold,
    `functools.partial` and torch dtypes have one.

    Args:
        value: anything.
        modules: receives the modules that the expression needs to be imported.
    """
    needed: set[str] = set()
    text = _expression(value, needed)
    if text is not None:
        modules |= needed
    return text


def _expression(value: Any, modules: set[str]) -> str | None:
    kind = type(value)
    if value is None or value is Ellipsis or kind in (bool, int, str, bytes):
        return repr(value)
    if kind is float or kind is complex:
        finite = value == value and abs(value) != float("inf")
        return repr(value) if finite else f"{kind.__name__}('{value}')"
    if kind in (list, tuple, set, frozenset, dict):
        return _container(value, modules)
    if isinstance(value, enum.Enum):
        owner = _global_name(kind, modules)
        return None if owner is None else f"{owner}.{value.name}"
    if kind is functools.partial:
        modules.add("functools")
        return _call("functools.partial", (value.func, *value.args), value.keywords, modules)
    if (kind.__module__, kind.__name__) == ("torch", "dtype"):
        modules.add("torch")
        return str(value)
    return _global_name(value, modules)


def _container(value: Any, modules: set[str]) -> str | None:
    kind = type(value)
    if kind is dict:
        keys, values = _all(value, modules), _all(value.values(), modules)
        if keys is None or values is None:
            return None
        return "{" + ", ".join(f"{key}: {one}" for key, one in zip(keys, values, strict=True)) + "}"
    ordered = value if kind in (list, tuple) else sorted(value, key=repr)
    items = _all(ordered, modules)
    if items is None:
        return None
    inside = ", ".join(items)
    if kind is list:
        return f"[{inside}]"
    if kind is tuple:
        return f"({inside},)" if len(items) == 1 else f"({inside})"
    return f"{{{inside}}}" if kind is set and items else f"{kind.__name__}([{inside}])"


def _call(function: str, args: Iterable[Any], keywords: dict[str, Any], modules: set[str]) -> str | None:
    positional, named = _all(args, modules), _all(keywords.values(), modules)
    if positional is None or named is None:
        return None
    words = [f"{name}={one}" for name, one in zip(keywords, named, strict=True)]
    return f"{function}({', '.join([*positional, *words])})"


def _all(values: Iterable[Any], modules: set[str]) -> list[str] | None:
    texts = [_expression(value, modules) for value in values]
    known = [text for text in texts if text is not None]
    return known if len(known) == len(texts) else None


def _global_name(value: Any, modules: set[str]) -> str | None:
    """`module.qualified.name` if that is where `value` can be imported from."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or not _importable(module):
        return None
    found: Any = sys.modules[module]
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not value:
        return None
    if module == "builtins":
        return name
    modules.add(module)
    return f"{module}.{name}"


def _importable(module: str) -> bool:
    """Whether another process can import the module by its name."""
    writable = all(part.isidentifier() and not keyword.iskeyword(part) for part in module.split("."))
    return writable and module in sys.modules and module != "__main__" and not module.startswith(CONF_MODULES)


def _render(configs: Configs, header: str, pairs: list[tuple[str, Any]]) -> str:
    modules: set[str] = set()
    defined, given, comments = [], [], []
    for name, value in pairs:
        text, owner = expression(value, modules), _owner_module(name)
        if text is None or (owner is None and not name.startswith(_USER_PREFIX)):
            shown = text if text is not None else repr(value)
            comments.append(f"#   {name} = {_one_line(shown)}")
        elif name.startswith(_USER_PREFIX):
            defined.append(f"define_config({name.removeprefix(_USER_PREFIX)!r}, {text})")
        else:
            modules.add(str(owner))
            setting = configs.settings.get(name)
            origin = f"  # {_one_line(str(setting.place))}" if setting is not None else ""
            given.append(f"        {name!r}: {text},{origin}")
    lines = [header]
    lines += [f"import {module}" for module in sorted(modules)]
    lines += ["from rein.config import config, define_config", ""]
    lines += [*defined, ""] if defined else []
    lines += ["config(", "    {", *given, "    }", ")"] if given else []
    if comments:
        lines += ["", "# These belong here too, but have no Python expression:", *comments]
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    """`text` fit for a comment: no line breaks, no control characters, no more than 200 characters."""
    plain = "".join(one if one.isprintable() else " " for one in text)
    short = " ".join(plain.split())
    return short if len(short) <= 200 else short[:197] + "..."


def _owner_module(full_name: str) -> str | None:
    """The importable module that defines the configurable of a full name."""
    module = full_name
    while "." in module:
        module = module.rpartition(".")[0]
        if module in sys.modules:
            return module if _importable(module) else None
    return None
