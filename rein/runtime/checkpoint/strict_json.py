"""JSON as checkpoints use it: reading refuses whatever writing would never produce."""

import json
import math
import re
from typing import Any, NoReturn

from rein.runtime.checkpoint.errors import DamagedCheckpointError

MAX_JSON_DEPTH = 400
"""Deepest nesting of brackets that is read; saved structures stay below it."""

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"|[\[{]|[\]}]', re.DOTALL)


def dump(value: Any) -> bytes:
    """The compact ASCII form of `value`, in the order of its dicts."""
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode()


def dump_canonical(value: Any) -> bytes:
    """The one form of `value` that `load_canonical` accepts: sorted, indented, ASCII."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, indent=1, sort_keys=True)
    return text.encode() + b"\n"


def load(data: bytes | bytearray | memoryview, what: str) -> Any:
    """The value written as JSON in `data`.

    Args:
        data: UTF-8 text.
        what: names the text in error messages.

    Raises:
        DamagedCheckpointError: not JSON, nested too deep, a repeated key, or a number that is not finite.
    """
    text = bytes(data)
    _check_depth(text, what)
    try:
        return json.loads(
            text.decode("utf-8"),
            object_pairs_hook=_distinct,
            parse_constant=_refuse,
            parse_float=_finite,
        )
    except (ValueError, RecursionError) as error:
        raise DamagedCheckpointError(f"{what} is not the JSON that was saved: {error}") from error


def load_canonical(data: bytes, what: str) -> Any:
    """Like `load`, and `data` must be byte for byte what `dump_canonical` writes."""
    value = load(data, what)
    if dump_canonical(value) != data:
        raise DamagedCheckpointError(f"{what} was altered: it is not in canonical form")
    return value


def _check_depth(text: bytes, what: str) -> None:
    # The C parser recurses; whoever raised the recursion limit would meet a stack overflow.
    depth = 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token in b"[{":
            depth += 1
            if depth > MAX_JSON_DEPTH:
                raise DamagedCheckpointError(f"{what} nests brackets deeper than {MAX_JSON_DEPTH} levels")
        elif token in b"]}":
            depth -= 1


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice in one object")
    return found


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is out of range")
    return value
