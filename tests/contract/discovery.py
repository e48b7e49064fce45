"""Finds the algorithms that Rein offers and the cases that build them."""

from importlib import import_module
from pathlib import Path
from typing import Any

import rein
from rein.framework import Algorithm, Loss
from tests.contract.world import Case, Part

CASE_FILES = Path(__file__).parent / "cases"
ROOT = Path(rein.__file__).parent


def packages() -> list[str]:
    """All packages of algorithms, whichever exist: the families and components, and the agents."""
    families = sorted(p.parent.name for p in (ROOT / "algorithms").glob("*/__init__.py"))
    return [f"rein.algorithms.{name}" for name in families] + ["rein.agents"]


def algorithms(package: str) -> list[type[Algorithm]]:
    """The algorithms in the `__all__` of a package, losses excepted: they are tested by hand-computed numbers."""
    module = import_module(package)
    offered = [getattr(module, name) for name in module.__all__]
    classes = [item for item in offered if isinstance(item, type) and issubclass(item, Algorithm)]
    return [cls for cls in classes if not issubclass(cls, Loss)]


def _collect(kind: str) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for file in sorted(CASE_FILES.glob("*.py")):
        entries = getattr(import_module(f"tests.contract.cases.{file.stem}"), kind, {})
        twice = found.keys() & entries.keys()
        if twice:
            raise ValueError(f"{file.name}: {kind} names {sorted(map(str, twice))} again: choose other names")
        found.update(entries)
    return found


def cases() -> dict[str, Case]:
    """All cases of algorithms that act, by name."""
    return _collect("CASES")


def parts() -> dict[str, Part]:
    """All cases of algorithms that only learn, by name."""
    return _collect("PARTS")


def not_built() -> dict[type, str]:
    """Classes without a case, with the reason."""
    return _collect("NOT_BUILT")
