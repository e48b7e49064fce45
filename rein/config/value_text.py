"""Values as texts that say what a value does, the same in every process and wherever the code that made it lies.

Unlike `repr` there are no addresses, and unlike `expression` nothing is refused: an object is its class and what it was
made of, a function of a conf is what it computes, and anything importable is its name without the module.
"""

import ast
import enum
import functools
import inspect
from collections.abc import Iterable, Mapping
from types import FunctionType, ModuleType
from typing import Any

from rein.config.configs import ACTIVE
from rein.config.names import CONF_MODULES

_LABELS = ("name",)
"""Parameters that only label an object."""


def value_text(value: Any) -> str:
    """The text of a value; two values of one text do the same."""
    return _text(value, ())


def _text(value: Any, inside: tuple[int, ...]) -> str:
    kind = type(value)
    if value is None or value is Ellipsis or kind in (bool, int, float, complex, str, bytes):
        return repr(value)
    if id(value) in inside:
        return "..."
    inside = (*inside, id(value))
    if isinstance(value, list | tuple | set | frozenset) and not hasattr(value, "_asdict"):
        return _container(value, [_text(one, inside) for one in value])
    if isinstance(value, Mapping):
        return "{" + ", ".join(sorted(f"{_text(key, inside)}: {_text(value[key], inside)}" for key in value)) + "}"
    if isinstance(value, enum.Enum):
        return f"{kind.__name__}.{value.name}"
    if kind is functools.partial:
        return _call(_text(value.func, inside), value.args, value.keywords, inside)
    if isinstance(value, ModuleType):
        return value.__name__
    named = getattr(value, "__qualname__", None)
    if isinstance(named, str):
        return _definition(value, named, inside)
    return _object(value, inside)


def _container(value: Any, items: list[str]) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    inner = items if isinstance(value, list) else sorted(items)
    return f"[{', '.join(inner)}]" if isinstance(value, list) else f"{{{', '.join(inner)}}}"


def _call(name: str, args: Iterable[Any], keywords: Mapping[str, Any], inside: tuple[int, ...]) -> str:
    positional = [_text(one, inside) for one in args]
    words = [f"{key}={_text(keywords[key], inside)}" for key in sorted(keywords) if key not in _LABELS]
    return f"{name}({', '.join([*positional, *words])})"


def _object(value: Any, inside: tuple[int, ...]) -> str:
    """An object by its class and what it was made of: constructor call, settings, fields or attributes."""
    name = type(value).__qualname__
    if (type(value).__module__, name) == ("torch", "dtype"):
        return str(value)
    call = getattr(value, "_constructor_call", None)
    if call is not None:
        return _call(name, call.args, call.kwargs, inside)
    settings = value._asdict() if hasattr(value, "_asdict") else getattr(value, "settings", None)
    if isinstance(settings, Mapping):
        return _call(name, (), _given(type(value), settings), inside)
    if hasattr(value, "tolist"):  # Arrays and tensors; what is learnt counts by its shape alone.
        content = "" if getattr(value, "requires_grad", False) else f", {_text(value.tolist(), inside)}"
        return f"{name}({tuple(value.shape)}{content})"
    return _call(name, (), _given(type(value), _attributes(value)), inside)


def _given(cls: type, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments that are not the defaults of a constructor, so that it may get further parameters."""
    try:
        parameters = inspect.signature(cls).parameters
    except (TypeError, ValueError):  # Some classes written in C have none.
        return dict(arguments)
    plain = {name: parameter.default for name, parameter in parameters.items()}
    return {name: one for name, one in arguments.items() if name not in plain or not _is_same(one, plain[name])}


def _is_same(value: Any, default: Any) -> bool:
    return type(value) is type(default) and _text(value, ()) == _text(default, ())


def _attributes(value: Any) -> dict[str, Any]:
    slots = [slot for one in type(value).__mro__ for slot in getattr(one, "__slots__", ()) if hasattr(value, slot)]
    found = {**{slot: getattr(value, slot) for slot in slots}, **getattr(value, "__dict__", {})}
    if "_modules" in found:  # A module of torch: its own attributes and its parts, and nothing of torch's.
        parts = {**found["_modules"], **found["_parameters"], **found["_buffers"]}
        own = {name: one for name, one in found.items() if not name.startswith("_") and name != "training"}
        return {**own, **parts}
    return {name.lstrip("_"): one for name, one in found.items() if not name.startswith("__")}


def _definition(value: Any, name: str, inside: tuple[int, ...]) -> str:
    """A class or function by its name, and one that a conf defines by what it does."""
    module = getattr(value, "__module__", None) or ""
    if not module.startswith(CONF_MODULES):
        return name
    conf = next((one for one in ACTIVE.configs.conf_files.values() if one.module.__name__ == module), None)
    target = inspect.unwrap(value) if callable(value) else value
    nodes = [] if conf is None else _find_nodes(ast.parse(conf.text), target)
    if conf is None or not nodes:
        return name
    nodes = [_without_words(node) for node in nodes]
    names = {one.id for node in nodes for one in ast.walk(node) if isinstance(one, ast.Name)}
    known = vars(conf.module)
    used = {one: known[one] for one in names if one in known and known[one] is not value}
    meant = {one: _text(used[one], inside) for one in sorted(used)}
    return "; ".join([ast.unparse(node) for node in nodes] + [f"{a} is {b}" for a, b in meant.items() if a != b])


def _find_nodes(tree: ast.Module, target: Any) -> list[ast.AST]:
    """The statements of a conf that define a class or function; all lambdas of its line if it is one."""
    if isinstance(target, FunctionType) and target.__name__ == "<lambda>":
        line = target.__code__.co_firstlineno
        return [node for node in ast.walk(tree) if isinstance(node, ast.Lambda) and node.lineno == line]
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [node for node in ast.walk(tree) if isinstance(node, kinds) and node.name == target.__name__]


def _without_words(node: ast.AST) -> ast.AST:
    """A definition without docstrings and annotations."""
    for one in ast.walk(node):
        if isinstance(one, ast.arg):
            one.annotation = None
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
            one.returns = None
        body = getattr(one, "body", None)
        if isinstance(body, list) and isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            is_text = isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
            one.body = (body[1:] or [ast.Pass()]) if is_text else body
    return node
