"""Overrides from the command line: `name=literal`, never evaluated."""

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from rein.config.errors import OverrideSyntaxError
from rein.config.names import NAMES

_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_WORD = re.compile(r"([^\W\d]|\.{0,2}/|~/)[\w./:+~-]*")
_NOT_WORDS = {
    "true": "True",
    "false": "False",
    "none": "None",
    "null": "None",
    "inf": "1e999",
    "infinity": "1e999",
    "nan": "a number; Python has no literal for nan",
}


@dataclass(frozen=True)
class Reference:
    """A registered configurable, named on the command line as `@name`; looked up when its user is known."""

    name: str

    def resolve(self) -> Any:
        """The class or function of that name."""
        return reference(self.name)

    def __str__(self) -> str:
        return f"@{self.name}"


def reference(name: str) -> Any:
    """The registered class or function of which `name` is an unambiguous suffix."""
    return NAMES.get_configurable(name).target


def parse_override(text: str) -> tuple[str, Any]:
    """The name and the value of an override such as `SacAlgorithm.target_update_tau=0.01`.

    The value is a Python literal (`0.01`, `(256, 256)`, `{'a': None}`, `'text'`), a bare word, name or path that is no
    literal (`CartPole-v1`, `ALE/Pong-v5`, `runs/first`), which is taken as a string, or `@Name`, which is
    a `Reference` to a registered configurable. Nothing is evaluated.

    Args:
        text: one command-line argument.
    """
    name, equals, value_text = text.partition("=")
    name, value_text = name.strip(), value_text.strip()
    if not equals:
        raise OverrideSyntaxError(f"override {text!r} has no '='. Write name=value")
    if not _NAME.fullmatch(name):
        raise OverrideSyntaxError(
            f"override {text!r}: {name!r} is not a dotted name such as SacAlgorithm.target_update_tau"
        )
    return name, _parse_value(text, value_text)


def parse_overrides(texts: Iterable[str]) -> dict[str, Any]:
    """The values of several overrides by name; a name given twice is an error."""
    values: dict[str, Any] = {}
    for text in texts:
        name, value = parse_override(text)
        if name in values:
            raise OverrideSyntaxError(f"override {text!r}: {name!r} is given twice. Keep one of them")
        values[name] = value
    return values


def literal_text(value: Any) -> str | None:
    """Text that `parse_override` reads back as an equal value, or None if there is none."""
    if isinstance(value, Reference):
        return str(value)
    registered = [one.name for one in NAMES if one.target is value]
    if registered:
        return f"@{registered[0]}"
    text = re.sub(r"\binf\b", "1e999", repr(value)) if _has_inf(value) else repr(value)
    try:
        read = ast.literal_eval(text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return text if _same(read, value) else None


def _parse_value(text: str, value_text: str) -> Any:
    if not value_text:
        raise OverrideSyntaxError(f"override {text!r} has no value. Write {text.strip()}'' for an empty string")
    if value_text.startswith("@"):
        if not _NAME.fullmatch(value_text[1:]):
            raise OverrideSyntaxError(f"override {text!r}: {value_text!r} is not '@' and the name of a configurable")
        return Reference(value_text[1:])
    try:
        return ast.literal_eval(value_text)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        pass  # Nothing is lost: a plain word is a string, and for the rest an error that says more is raised below.
    meant = _NOT_WORDS.get(value_text.lower().lstrip("+-"))
    if meant is not None:
        raise OverrideSyntaxError(
            f"override {text!r}: {value_text!r} is no Python literal. Write {meant}, or quote it "
            f"(\"'{value_text}'\") for a string"
        )
    if not _WORD.fullmatch(value_text):
        raise OverrideSyntaxError(
            f"override {text!r}: {value_text!r} is no Python literal. Expressions are not evaluated; "
            f"for a string, quote it within the argument: \"{text.partition('=')[0].strip()}='...'\""
        )
    return value_text


def _has_inf(value: Any) -> bool:
    if isinstance(value, float):
        return value in (float("inf"), float("-inf"))
    if isinstance(value, dict):
        return any(_has_inf(one) for pair in value.items() for one in pair)
    return isinstance(value, list | tuple | set) and any(_has_inf(one) for one in value)


def _same(read: Any, value: Any) -> bool:
    """Whether the types agree too: `True` is no `1`, a NamedTuple is no tuple."""
    if type(read) is not type(value):
        return False
    if isinstance(value, dict):
        return len(read) == len(value) and all(
            _same(*keys) and _same(*values)
            for keys, values in zip(
                zip(read, value, strict=True), zip(read.values(), value.values(), strict=True), strict=True
            )
        )
    if isinstance(value, list | tuple):
        return len(read) == len(value) and all(map(_same, read, value))
    return bool(read == value)
