"""Calls as people write them on a command line: `name`, `name=value`, `name(parameter=value, ...)`; never evaluated.

A name may be that of a class elsewhere, `module:Class`.
"""

import ast
import re
from typing import Any, NamedTuple

from rein.config.errors import ConfigError, OverrideSyntaxError
from rein.config.overrides import Reference, parse_override

_FROM_MODULE = re.compile(r"\s*([^\W\d]\w*(?:\.[^\W\d]\w*)*):\s*(?=[^\W\d])")


class CallSyntaxError(ConfigError):
    """A text is no call; the message says how to write one."""


class CallText(NamedTuple):
    """What a text says."""

    module: str | None
    """Where the name is from; None for a name that is known."""
    name: str
    args: tuple[Any, ...]
    keywords: dict[str, Any]


def read_call(text: str, kind: str, allows_positional: bool = True) -> CallText:
    """The call that a text stands for.

    Args:
        text: `name`, `name=value`, whose value is the first argument, or `name(parameter=value)`.
        kind: what is named, for messages: "part", "callback".
        allows_positional: whether `name(value)` is allowed.

    Raises:
        CallSyntaxError: the text is wrong.
    """
    syntax = f"{kind} {text!r} cannot be read: write NAME, NAME=VALUE or 'NAME(parameter=value, ...)'"
    if not isinstance(text, str):
        raise CallSyntaxError(f"{kind} {text!r} is no text: write NAME, NAME=VALUE or 'NAME(parameter=value, ...)'")
    from_module = _FROM_MODULE.match(text)
    module, rest = (from_module[1], text[from_module.end() :]) if from_module else (None, text)
    rest = rest.strip()
    if rest.isidentifier():
        return CallText(module, rest, (), {})
    name, equals, value = rest.partition("=")
    if equals and name.strip().isidentifier():
        return CallText(module, name.strip(), (_value(text, rest, value, kind),), {})
    try:
        call = ast.parse(rest, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise CallSyntaxError(syntax) from None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise CallSyntaxError(syntax)
    if (call.args and not allows_positional) or any(one.arg is None for one in call.keywords):
        raise CallSyntaxError(f"{kind} {text!r}: name every parameter, '{call.func.id}(parameter=value)'")
    args = tuple(_literal(text, kind, "", one) for one in call.args)
    keywords: dict[str, Any] = {}
    for one in call.keywords:
        assert one.arg is not None
        if one.arg in keywords:
            raise CallSyntaxError(f"{kind} {text!r}: {one.arg} is given twice")
        keywords[one.arg] = _literal(text, kind, f"{one.arg}=", one.value)
    return CallText(module, call.func.id, args, keywords)


def _value(text: str, rest: str, value: str, kind: str) -> Any:
    if not value.strip():
        raise CallSyntaxError(f"{kind} {text!r} has no value: write NAME, NAME=VALUE or 'NAME(parameter=value, ...)'")
    try:
        found = parse_override(rest)[1]
    except OverrideSyntaxError as error:
        raise CallSyntaxError(f"{kind} {text!r}: {str(error).partition(': ')[2]}") from None
    if isinstance(found, Reference):
        raise CallSyntaxError(
            f"{kind} {text!r}: {found} is no literal; {kind}s take numbers, texts, lists and the like"
        )
    return found


def _literal(text: str, kind: str, what: str, node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, MemoryError, RecursionError):
        raise CallSyntaxError(
            f"{kind} {text!r}: {what}{ast.unparse(node)} is no Python literal; nothing is evaluated, and texts need quotes"
        ) from None
