"""Which module defines which configurable, found in the source text, so that a conf need not import what it configures."""

import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

from rein.config.names import set_name_resolver

_PACKAGE = Path(__file__).parents[1]

_DECORATED = re.compile(
    r"^@configurable(?:\(\s*(?:\"(?P<given>[\w.]+)\")?[^\n]*\))?\n(?:@[^\n]*\n)*(?:class|def) (?P<name>\w+)",
    re.MULTILINE,
)


def install_name_resolver() -> None:
    """Lets confs and overrides use the name of every configurable of Rein; may be called again."""
    set_name_resolver(_import_definitions, configurable_names())


@cache
def configurable_names() -> dict[str, str]:
    """Full names of all configurables of Rein, each with the module that defines it."""
    names: dict[str, str] = {}
    for path in sorted(_PACKAGE.rglob("*.py")):
        relative = path.relative_to(_PACKAGE)
        if relative.parts[0] in ("zoo", "cli"):
            continue
        module = ".".join([_PACKAGE.name, *relative.with_suffix("").parts]).removesuffix(".__init__")
        names.update((f"{module}.{name}", module) for name in _definitions(path.read_text(encoding="utf-8")))
    return names


def _definitions(source: str) -> Iterator[str]:
    if "@configurable" in source:
        for match in _DECORATED.finditer(source):
            yield match["given"] or match["name"]


@cache
def _by_last_part() -> dict[str, list[tuple[str, str]]]:
    table: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for name, module in configurable_names().items():
        table[name.rpartition(".")[2]].append((f".{name}", module))
    return table


def _import_definitions(name: str) -> None:
    """Imports every module that defines a configurable of which `name` is a suffix."""
    for full_name, module in _by_last_part().get(name.rpartition(".")[2], ()):
        if full_name.endswith(f".{name}"):
            import_module(module)
