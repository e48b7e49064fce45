"""What an entry of the zoo is about: the algorithm as one types it, and the family that it belongs to."""

import ast
import re
from functools import cache
from pathlib import Path

from rein.zoo import ZooEntry, algorithms

FAMILIES = {
    "on_policy": "On-policy",
    "off_policy": "Off-policy",
    "offline": "From data",
    "model_based": "Model-based",
    "search": "Search",
    "learners": "Learners",
    "representation": "Representation and memory",
    "particle_vi": "Bayesian",
    "other": "Others",
}
"""Titles, in the order of pages."""

_HOME = Path(__file__).parent
_CLASS = re.compile(r"^class (\w+)", re.MULTILINE)


def algorithm_name(entry: ZooEntry) -> str:
    """What to write after `--algorithm` to get the algorithm of an entry with its defaults; else its class, shortened."""
    imported = _base_of(entry.path)
    of_its_class = [name for name, base in algorithms().items() if base.algorithm == entry.algorithm]
    called_like_it = [name for name in of_its_class if entry.name.startswith(f"{name}_")]
    if called_like_it:
        return max(called_like_it, key=len)
    if imported in of_its_class or (imported and not of_its_class):
        return imported
    return of_its_class[0] if of_its_class else entry.algorithm.removesuffix("Algorithm").lower()


def family_of(entry: ZooEntry) -> str:
    """A key of `FAMILIES`: the folder of the algorithm's class, or of that of the base if the class is a composition."""
    base = algorithms().get(_base_of(entry.path))
    for name in (entry.algorithm, "" if base is None else base.algorithm):
        if name in _homes():
            return _homes()[name]
    return "other"


def _base_of(conf: Path) -> str:
    """Name of the first base that a conf imports, by itself or through another task; empty if none. The conf is not run."""
    for node in ast.walk(ast.parse(conf.read_text(encoding="utf-8"), str(conf))):
        if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "import_config" and node.args):
            continue
        argument = node.args[0]
        if not (isinstance(argument, ast.Constant) and isinstance(argument.value, str)):
            continue
        imported = _HOME / argument.value
        if not imported.is_file():
            imported = conf.parent / argument.value
        if imported.parent.name == "bases":
            return imported.stem
        found = _base_of(imported) if imported.is_file() and imported.parent.name == "tasks" else ""
        if found:
            return found
    return ""


@cache
def _homes() -> dict[str, str]:
    """The family of each class below `rein/algorithms`, found without importing anything; and that of learners."""
    folder = _HOME.parent / "algorithms"
    known = {
        name: path.parent.name
        for path in sorted(folder.glob("*/*.py"))
        if path.parent.name in FAMILIES
        for name in _CLASS.findall(path.read_text(encoding="utf-8"))
    }
    learners = {
        name: "learners"
        for path in sorted((_HOME.parent / "learners").glob("*.py"))
        for name in _CLASS.findall(path.read_text(encoding="utf-8"))
    }
    return {**learners, **known}
