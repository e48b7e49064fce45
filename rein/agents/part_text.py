"""What a user writes to name a part: `rnd`, `rnd=0.5`, or `rnd(coef=0.5, hidden_layers=(64, 64))`; never evaluated."""

import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rein.agents.registry import ALGORITHM, Parameter, PartError, RegisteredPart, find_part
from rein.config.call_text import CallSyntaxError, read_call
from rein.config.names import did_you_mean


class PartCall(NamedTuple):
    """A part and what the user wants to be set."""

    text: str
    part: RegisteredPart
    arguments: Mapping[str, Any]

    def make(self, algorithm_ctor: Callable[..., Any]) -> dict[str, Any]:
        """Arguments of `Agent`.

        Args:
            algorithm_ctor: constructor of the RL algorithm.
        """
        more = {ALGORITHM: algorithm_ctor} if self.part.needs_algorithm else {}
        try:
            return self.part.function(**self.arguments, **more)
        except (ValueError, TypeError) as error:
            raise PartError(f"part {self.text!r}: {error}") from error


def read_parts(texts: Sequence[str]) -> list[PartCall]:
    """The parts that texts name; no two of them do the same in an agent.

    Raises:
        PartError: a text is wrong; the message says what to change.
    """
    if isinstance(texts, str):
        raise PartError(f"parts are {texts!r}: give a list of texts, [{texts!r}]")
    calls = [read_part(text) for text in texts]
    taken: dict[str, PartCall] = {}
    for call in calls:
        for slot in call.part.slot.split(", "):
            if slot in taken:
                raise PartError(
                    f"parts {taken[slot].text!r} and {call.text!r} both are the {slot} of the agent, which has one: "
                    "leave one of them out"
                )
            taken[slot] = call
    return calls


def read_part(text: str) -> PartCall:
    """The part that a text names, with values for its parameters.

    Raises:
        PartError: the text is wrong; the message says what to change.
    """
    try:
        call = read_call(text, "part", allows_positional=False)
    except CallSyntaxError as error:
        raise PartError(str(error)) from None
    if call.module is not None:
        raise PartError(f"part {text!r}: parts are known by their names alone; `rein list parts` shows them")
    name, arguments = call.name, call.keywords
    part = find_part(name)
    parameters = part.parameters()
    if call.args:
        if not parameters:
            raise PartError(f"part {text!r}: {name} has no parameters: write {name} alone")
        arguments = {next(iter(parameters)): call.args[0]}
    for given, value in arguments.items():
        _check_value(text, part.name, given, value, parameters)
    missing = [one for one in parameters.values() if one.is_required and one.name not in arguments]
    if missing:
        one = missing[0]
        way = f"{name}=VALUE" if one.name == next(iter(parameters)) else f"{name}({one.name}=VALUE)"
        raise PartError(f"part {text!r} needs {one.name}, {_annotation_text(one.annotation)}: write '{way}'")
    return PartCall(text.strip(), part, arguments)


def _check_value(text: str, name: str, given: str, value: Any, parameters: Mapping[str, Parameter]) -> None:
    if given not in parameters:
        listed = ", ".join(map(str, parameters.values()))
        hint = did_you_mean(given, parameters)
        raise PartError(f"part {text!r}: {name} has no parameter {given!r}.{hint} Its parameters: {listed or 'none'}")
    annotation = parameters[given].annotation
    if not _fits(value, annotation):
        raise PartError(f"part {text!r}: {given} is {value!r}: give {_annotation_text(annotation)}")


def _fits(value: Any, annotation: Any) -> bool:
    """Whether a literal is what an annotation says; annotations of other kinds fit everything."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (types.UnionType, typing.Union):
        return any(_fits(value, one) for one in arguments)
    if annotation in (None, type(None)):
        return value is None
    if annotation is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if annotation is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if annotation in (bool, str):
        return isinstance(value, annotation)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return isinstance(value, list | tuple) and all(_fits(one, arguments[0]) for one in value)
    return True


def _annotation_text(annotation: Any) -> str:
    """What to give, in words."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (types.UnionType, typing.Union):
        return " or ".join(_annotation_text(one) for one in arguments)
    words = {float: "a number", int: "a whole number", bool: "True or False", str: "a text", type(None): "None"}
    if annotation in words:
        return words[annotation]
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return f"a list, each {_annotation_text(arguments[0])}"
    return str(annotation)
