"""Classes that people name in settings and on the command line: ours by name, those of installed packages, their own.

keep_best                     known here
my_sink                       an installed package has an entry point of that name
my_module:Watch(limit=3)      a class of a module; it must be trusted, or imported already
"""

import inspect
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from rein.config.call_text import CallText, read_call
from rein.config.errors import ConfigError, UntrustedCodeError
from rein.config.names import did_you_mean


class ExtensionError(ConfigError):
    """What a text names cannot be found or made."""


def make_extension(
    text: str, kind: str, known: Mapping[str, Callable[..., Any]], group: str, trust: bool, **more: Any
) -> Any:
    """What a text names, made with the arguments that it gives.

    Args:
        text: see above.
        kind: what is named, for messages: "callback".
        known: classes by name.
        group: of entry points.
        trust: whether a module may be imported because the text says so.
        **more: further arguments, for those that have parameters of these names.
    """
    call = read_call(text, kind)
    made_by = _find(call, text, kind, known, group, trust)
    parameters = inspect.signature(made_by).parameters
    takes_all = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
    given = {name: value for name, value in more.items() if name in parameters or takes_all}
    try:
        return made_by(*call.args, **{**given, **call.keywords})
    except TypeError as error:
        own = [str(one) for name, one in parameters.items() if name not in more]
        raise ExtensionError(f"{kind} {text!r}: {error}. Its parameters: {', '.join(own) or 'none'}") from error
    except ValueError as error:
        raise ExtensionError(f"{kind} {text!r}: {error}") from error


def _find(
    call: CallText, text: str, kind: str, known: Mapping[str, Callable[..., Any]], group: str, trust: bool
) -> Callable[..., Any]:
    if call.module is not None:
        return _from_module(call.module, call.name, f"{kind} {text!r}", trust)
    if call.name in known:
        return known[call.name]
    installed = {point.name: point for point in entry_points(group=group)}
    if call.name not in installed:
        names = sorted({*known, *installed})
        hint = did_you_mean(call.name, names) or f" There are {', '.join(names)}, and module:Class for one of yours."
        raise ExtensionError(f"there is no {kind} {call.name!r}.{hint}")
    point = installed[call.name]
    try:
        found: Callable[..., Any] = point.load()
    except Exception as error:
        raise ExtensionError(
            f"{kind} {text!r}: {point.value} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    return found


def _from_module(module: str, name: str, what: str, trust: bool) -> Callable[..., Any]:
    if module not in sys.modules:
        if not trust:
            raise UntrustedCodeError(
                f"{what} would import the module {module}: add --trust, or trust=True, if you trust whoever made the run"
            )
        _import(module, what)
    found = getattr(sys.modules[module], name, None)
    if not callable(found):
        near = did_you_mean(name, [one for one in vars(sys.modules[module]) if not one.startswith("_")])
        raise ExtensionError(f"{what}: the module {module} has no class {name}.{near}")
    result: Callable[..., Any] = found
    return result


def _import(module: str, what: str) -> None:
    try:
        import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise ExtensionError(f"{what}: {module} cannot be imported: {error}") from error
        raise ExtensionError(
            f"{what}: there is no module {module}, neither installed nor in the folder you are in"
        ) from error
    except Exception as error:
        raise ExtensionError(f"{what}: {module} cannot be imported: {type(error).__name__}: {error}") from error
