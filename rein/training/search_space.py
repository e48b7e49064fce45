"""What a sweep varies: values to choose from, or ranges to draw from, written as `name=[...]` or `name=log(a, b)`."""

import ast
import re
from collections.abc import Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from rein.config import parse_override
from rein.config.errors import OverrideSyntaxError
from rein.config.overrides import Reference, literal_text

_RANGE = re.compile(r"(?P<kind>uniform|log|int)\((?P<bounds>[^()]*)\)")
_KINDS = {"uniform": "a number between a and b", "log": "the same on a logarithmic scale", "int": "a whole number"}


class Dimension(NamedTuple):
    """One setting that a sweep varies."""

    name: str
    kind: str
    """"choice", "uniform", "log" or "int"."""
    values: tuple[Any, ...]
    """The choices, or the lower and the upper bound, both included."""

    def draw(self, rng: np.random.Generator) -> Any:
        """A random value."""
        if self.kind == "choice":
            return self.values[int(rng.integers(len(self.values)))]
        low, high = self.values
        if self.kind == "int":
            return int(rng.integers(low, high + 1))
        if self.kind == "log":
            return float(np.exp(rng.uniform(np.log(low), np.log(high))))
        return float(rng.uniform(low, high))


def parse_dimension(text: str) -> Dimension:
    """What `name=[a, b, c]`, `name=uniform(a, b)`, `name=log(a, b)` or `name=int(a, b)` means.

    Args:
        text: one command-line argument; the names are those of overrides, and the values literals.
    """
    name, equals, right = (part.strip() for part in text.partition("="))
    found = _RANGE.fullmatch(right)
    if found is not None:
        parse_override(f"{name}=0")
        return _parse_range(text, name, found["kind"], found["bounds"])
    if not equals or not right.startswith("["):
        kinds = ", ".join(f"{kind}(a, b) for {meaning}" for kind, meaning in _KINDS.items())
        raise ValueError(f"--vary {text!r}: write name=[a, b, c] for choices, or name= and {kinds}")
    _, values = parse_override(text)
    if not isinstance(values, list) or not values:
        raise ValueError(f"--vary {text!r}: give at least one value in the list")
    return Dimension(name, "choice", tuple(_as_value(value) for value in values))


def _parse_range(text: str, name: str, kind: str, bounds_text: str) -> Dimension:
    try:
        bounds = ast.literal_eval(f"({bounds_text},)")
    except (ValueError, SyntaxError) as error:
        raise ValueError(f"--vary {text!r}: {kind}(a, b) needs two numbers") from error
    numbers = int if kind == "int" else (int, float)
    if len(bounds) != 2 or not all(isinstance(one, numbers) and not isinstance(one, bool) for one in bounds):
        raise ValueError(f"--vary {text!r}: {kind}(a, b) needs two {'whole ' if kind == 'int' else ''}numbers")
    low, high = bounds
    if not low < high or (kind == "log" and low <= 0):
        raise ValueError(f"--vary {text!r}: needs a < b{' and a > 0' if kind == 'log' else ''}")
    return Dimension(name, kind, (low, high))


def _as_value(value: Any) -> Any:
    """A choice; a string "@Name" means the configurable of that name, as in an override."""
    return Reference(value[1:]) if isinstance(value, str) and value.startswith("@") else value


def override_text(name: str, value: Any) -> str:
    """The override `name=value`, as `parse_override` reads it back."""
    text = literal_text(value)
    if text is None:
        raise OverrideSyntaxError(f"{value!r} for {name} cannot be written as a literal")
    return f"{name}={text}"


def grid(dimensions: Sequence[Dimension]) -> list[dict[str, Any]]:
    """All combinations of the choices, the last dimension changing fastest."""
    for dimension in dimensions:
        if dimension.kind != "choice":
            raise ValueError(
                f"a grid needs choices, but {dimension.name} is {dimension.kind}{dimension.values}: write "
                f"{dimension.name}=[a, b, c], or use --method random"
            )
    names = [dimension.name for dimension in dimensions]
    return [
        dict(zip(names, values, strict=True)) for values in product(*(dimension.values for dimension in dimensions))
    ]


def random_point(dimensions: Sequence[Dimension], seed: int, trial: int) -> dict[str, Any]:
    """A point that depends on the seed and the number of the trial only."""
    rng = np.random.default_rng([seed, trial])
    return {dimension.name: dimension.draw(rng) for dimension in dimensions}
